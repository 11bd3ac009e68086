"""The answers of providers. SAML posts a response to the assertion consumer service, `POST /sso/saml/{orgSlug}/acs`.
OpenID Connect sends the browser to `GET /sso/oidc/{orgSlug}/callback` with a code (specification 4.7).
"""

import asyncio
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import JSON_TYPE, BadRequest
from chassis.http.access import anonymous
from chassis.http.body import read_body, require_media_type
from chassis.http.declaration import route
from chassis.http.route import Body, Parameter
from chassis.http.validation import Issues, bounded_text, decode_json, single_value
from control.http.context import RequestSlots
from control.identity.sso import connection_store, mapping
from control.identity.sso.connection_store import ConnectionOfOrganization, StoredConnection
from control.identity.sso.login import browser, login_store
from control.identity.sso.login.completion import COMPLETED, Completion, Vouched
from control.identity.sso.oidc.code_flow import TokenResponse, check_response_issuer, exchange_code, fetch_userinfo
from control.identity.sso.oidc.id_token import IdToken, UnknownKey, verify_id_token
from control.identity.sso.oidc.provider import ProviderMetadata, Providers
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.certificates import parse_certificate
from control.identity.sso.saml.response import Assertion, ExpectedResponse, verify_response
from control.identity.sso.tables import Protocol
from control.outbound.egress import Egress
from control.routing.arguments import Handlers
from control.secrets.secret_box import SecretBox
from proto.identity import hash_secret

# 256 KiB of XML in base64 (a third more) with line breaks, percent-encoded in a form (up to a tenth more).
MAX_BODY_BYTES: Final = 512 * 1_024
MAX_VERIFICATIONS: Final = 2  # at once; each takes milliseconds of CPU time
EMAIL_FORMAT: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
AUTHN_METHODS: Final = "http://schemas.microsoft.com/claims/authnmethodsreferences"
_FORM: Final = "application/x-www-form-urlencoded"

MAX_CODE: Final = 4_096
MAX_STATE: Final = 512
MAX_ERROR: Final = 256
MAX_ERROR_DESCRIPTION: Final = 1_024

PARAMETERS: Final = (
    browser.ORG_SLUG,
    browser.FORMAT,
    Parameter("code", "query", Annotated[str, Meta(min_length=1, max_length=MAX_CODE)], "The authorization code."),
    Parameter("state", "query", Annotated[str, Meta(min_length=1, max_length=MAX_STATE)], "The state of the login."),
    Parameter("iss", "query", str, "The issuer of the answer (RFC 9207)."),
    Parameter("error", "query", Annotated[str, Meta(max_length=MAX_ERROR)], "The reason why the provider refuses."),
    Parameter(
        "error_description",
        "query",
        Annotated[str, Meta(max_length=MAX_ERROR_DESCRIPTION)],
        "The reason as a sentence for users.",
    ),
)
# Limit of logins of one organization in this process that wait for its provider, each with one connection at a time. A
# provider that hangs must not take the connections of all organizations.
MAX_AT_PROVIDER: Final = 16
RETRY_AFTER_S: Final = 5
TOO_SLOW: Final = "The identity provider is slow: too many logins wait for it. Try again."


class AssertionPost(msgspec.Struct, frozen=True):
    """The form that a SAML provider posts."""

    saml_response: str = msgspec.field(name="SAMLResponse")
    relay_state: str | None = msgspec.field(default=None, name="RelayState")


@dataclass(frozen=True, slots=True)
class _Query:
    """The parameters of a callback."""

    ending: browser.Format
    code: str | None
    state: str | None
    error: str | None
    issuer: str | None


def _slots_at_provider() -> RequestSlots:
    return RequestSlots(TOO_SLOW, MAX_AT_PROVIDER, max_waiting=0, retry_after_s=RETRY_AFTER_S)


@dataclass(frozen=True, slots=True)
class ProviderResponses(Handlers):
    """Handlers of the answers of providers, and their dependencies."""

    secret_box: SecretBox
    egress: Egress
    urls: browser.SsoUrls
    providers: Providers
    completion: Completion
    slots: RequestSlots = field(default_factory=_slots_at_provider)
    verifications: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_VERIFICATIONS))

    @route(
        "POST",
        "/sso/saml/{orgSlug}/acs",
        anonymous(),
        body=Body({"application/json": AssertionPost, _FORM: AssertionPost}),
        parameters=(browser.ORG_SLUG, browser.FORMAT),
        responses=COMPLETED,
        only_errors=browser.ERROR_STATUSES,
    )
    async def complete_saml_login(self, request: web.Request) -> web.StreamResponse:
        """Complete a login through a SAML provider.

        The provider lets the browser post its response here. Every refusal is the same 400. The audit log has the
        reason. Responses without a request (IdP-initiated) are refused.
        """
        browser.require_navigation(request)
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        ending = browser.read_format(request, issues)
        issues.raise_if_any()
        found = await self.completion.find_connection(request, org_slug, Protocol.SAML)
        posted = await self._read_post(request)
        async with self.completion.refusing(request, found):
            return await self._complete_saml(request, found, posted, ending)

    async def _complete_saml(
        self, request: web.Request, sso: ConnectionOfOrganization, posted: AssertionPost, ending: browser.Format
    ) -> web.StreamResponse:
        state, stored = posted.relay_state or "", sso.connection
        if not browser.is_secret(state):
            raise LoginRefused(
                "state_missing",
                "The response has no RelayState of Sluice, so it does not belong to a login that Sluice has begun.",
            )
        async with self.context.database.read() as connection:  # a later transaction uses login and assertion together
            login = await _find_login(connection, request, stored, state)
        assertion = await self._verify_assertion(sso, login, posted.saml_response)
        named = assertion.subject if assertion.subject_format == EMAIL_FORMAT else ""
        vouched = Vouched(
            subject=assertion.subject,
            profile=mapping.read_profile(Protocol.SAML, stored.attribute_mapping, assertion.attributes, named),
            mfa=mapping.is_mfa_asserted(assertion.attributes.get(AUTHN_METHODS, ()), assertion.authn_context),
            session_expires_at=assertion.session_not_on_or_after,
            assertion_id=assertion.id,
            assertion_expires_at=assertion.not_on_or_after,
        )
        return await self.completion.complete(request, sso, login, state, vouched, ending)

    async def _verify_assertion(
        self, sso: ConnectionOfOrganization, login: login_store.StoredLogin, encoded: str
    ) -> Assertion:
        """The signed assertion, verified in a thread. Raises LoginRefused."""
        texts = connection_store.certificates_of(self.secret_box, sso.connection)
        expected = ExpectedResponse(
            certificates=tuple(parse_certificate(text) for text in texts),
            idp_entity_id=sso.connection.idp_entity_id or "",
            sp_entity_id=self.urls.entity_id(sso.org_slug),
            acs_url=self.urls.acs(sso.org_slug),
            request_id=login.request_id,
            now=datetime.now(UTC),
        )
        async with self.verifications:
            return await asyncio.to_thread(verify_response, encoded, expected)

    async def _read_post(self, request: web.Request) -> AssertionPost:
        """The posted form, or JSON. Raises BadRequest, and errors that become one: PayloadTooLarge,
        UnsupportedMediaType.
        """
        media_type = require_media_type(request, (_FORM, JSON_TYPE))
        raw = await read_body(request, MAX_BODY_BYTES, self.context.body_timeout_s)
        issues = Issues()
        posted = _decode_form(raw, issues) if media_type == _FORM else decode_json(AssertionPost, raw, "body", issues)
        issues.raise_if_any("The request body is not valid.")
        if posted is None:
            raise BadRequest("The request body is not valid.")
        return posted

    @route(
        "GET",
        "/sso/oidc/{orgSlug}/callback",
        anonymous(),
        parameters=PARAMETERS,
        responses=COMPLETED,
        only_errors=browser.ERROR_STATUSES,
        answers_head=False,
    )
    async def complete_oidc_login(self, request: web.Request) -> web.StreamResponse:
        """Complete a login through an OpenID provider.

        The provider sends the browser here. Every refusal is the same 400. The audit log has the reason.
        """
        browser.require_navigation(request)
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        query = _read_query(request, issues)
        found = await self.completion.find_connection(request, org_slug, Protocol.OIDC)
        # The slot is taken before the login is used, so that the browser may try again.
        async with self.slots.taken(found.connection.org_id), self.completion.refusing(request, found):
            return await self._complete_oidc(request, found, query)

    async def _complete_oidc(
        self, request: web.Request, sso: ConnectionOfOrganization, query: _Query
    ) -> web.StreamResponse:
        state = query.state or ""
        binding = browser.binding_of(request, state)
        login = await self._use_login(request, sso, state)
        if query.error is not None:
            raise LoginRefused("provider_error", f"The provider answers: {query.error}.")
        if query.code is None:
            raise LoginRefused("code_missing", "The provider sent no code.")
        stored = sso.connection
        metadata = await self.providers.metadata(stored.oidc_issuer or "", account=stored.org_id)
        check_response_issuer(metadata, query.issuer)
        response = await self._exchange(sso, metadata, query.code, binding or "")
        id_token = await self._verify_id_token(sso, metadata, response, binding or "")
        claims = await self._claims(sso, metadata, response, id_token)
        vouched = Vouched(
            subject=id_token.subject,
            profile=mapping.read_profile(Protocol.OIDC, stored.attribute_mapping, claims),
            mfa=mapping.is_mfa_asserted(id_token.auth_methods, id_token.acr),
        )
        return await self.completion.complete(request, sso, login, state, vouched, query.ending)

    async def _use_login(
        self, request: web.Request, sso: ConnectionOfOrganization, state: str
    ) -> login_store.StoredLogin:
        """Use the login that this browser has begun. It stays used even if a later step fails. Raises LoginRefused."""
        if not browser.is_secret(state):  # checked before the write lock, so that invalid requests do not take it
            raise LoginRefused("state_missing", "The request has no state of Sluice: the login was not begun here.")
        async with self.context.database.write() as connection:
            login = await _find_login(connection, request, sso.connection, state)
            if not await login_store.use_login(connection, sso.connection.id, state, datetime.now(UTC)):
                raise LoginRefused("state_unknown", "The login is not known, was used, or has expired.")
        return login

    async def _exchange(
        self, sso: ConnectionOfOrganization, metadata: ProviderMetadata, code: str, binding: str
    ) -> TokenResponse:
        stored = sso.connection
        return await exchange_code(
            self.egress,
            metadata,
            client_id=stored.oidc_client_id or "",
            client_secret=connection_store.decrypt_field(self.secret_box, stored, "oidc_client_secret"),
            code=code,
            code_verifier=browser.derive(binding, "pkce"),
            redirect_uri=self.urls.callback(sso.org_slug),
            account=stored.org_id,
        )

    async def _verify_id_token(
        self, sso: ConnectionOfOrganization, metadata: ProviderMetadata, response: TokenResponse, binding: str
    ) -> IdToken:
        """The verified ID token. If it is signed with an unknown key, the keys are fetched again."""
        account, unknown_kid = sso.connection.org_id, None
        while True:
            keys = await self.providers.key_set(metadata, account=account, unknown_kid=unknown_kid)
            try:
                return verify_id_token(
                    response.id_token,
                    keys,
                    issuer=metadata.issuer,
                    client_id=sso.connection.oidc_client_id or "",
                    nonce=browser.derive(binding, "nonce"),
                    now=datetime.now(UTC),
                    access_token=response.access_token,
                )
            except UnknownKey as error:
                if unknown_kid is not None:
                    raise
                unknown_kid = error.kid

    async def _claims(
        self,
        sso: ConnectionOfOrganization,
        metadata: ProviderMetadata,
        response: TokenResponse,
        id_token: IdToken,
    ) -> Mapping[str, Any]:
        """The claims of the ID token. If a needed claim is missing, claims of userinfo are added if it is available."""
        stored = sso.connection
        needed = mapping.needs_userinfo(stored.attribute_mapping, stored.role_mapping, id_token.claims)
        if not needed or metadata.userinfo_endpoint is None or response.access_token is None:
            return id_token.claims
        more = await fetch_userinfo(self.egress, metadata, response.access_token, account=stored.org_id)
        if more.get("sub") != id_token.subject:  # OpenID Connect core 5.3.2: then it must not be used
            raise LoginRefused(
                "userinfo_subject_mismatch", "The userinfo endpoint returned another subject than the ID token."
            )
        return mapping.merge_claims(id_token.claims, more)


async def _find_login(
    connection: AsyncConnection, request: web.Request, stored: StoredConnection, state: str
) -> login_store.StoredLogin:
    """The login that this browser has begun. Raises LoginRefused."""
    login = await login_store.find_login(connection, stored.id, state, datetime.now(UTC))
    if login is None:
        raise LoginRefused("state_unknown", "The login is not known, was used, or has expired.")
    binding = browser.binding_of(request, state)
    if binding is None or not hmac.compare_digest(hash_secret(binding), bytes(login.binding_hash)):
        raise LoginRefused(
            "browser_mismatch", "Another browser has begun the login, or the browser accepts no cookies."
        )
    return login


def _decode_form(raw: bytes, issues: Issues) -> AssertionPost | None:
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        issues.add("body", "Must be a form.", "malformed")
        return None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        issues.add("body", "Must not repeat a field.", "repeated")
    if "SAMLResponse" not in fields:
        issues.add("body.SAMLResponse", "Object missing required field `SAMLResponse`", "missing")
        return None
    return msgspec.convert(
        {name: fields[name] for name in ("SAMLResponse", "RelayState") if name in fields}, AssertionPost
    )


def _read_query(request: web.Request, issues: Issues) -> _Query:
    """The query. Raises BadRequest with `issues`, and with an issue for every parameter out of its bounds."""
    query = _Query(
        ending=browser.read_format(request, issues),
        code=bounded_text(request.query, "code", 1, MAX_CODE, issues),
        state=bounded_text(request.query, "state", 1, MAX_STATE, issues),
        error=bounded_text(request.query, "error", 0, MAX_ERROR, issues),
        issuer=single_value(request.query, "iss", issues),
    )
    bounded_text(request.query, "error_description", 0, MAX_ERROR_DESCRIPTION, issues)
    issues.raise_if_any()
    return query
