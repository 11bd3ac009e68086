"""`GET /sso/oidc/{orgSlug}/callback`: the browser returns from the OpenID provider (specification 4.7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import Meta

from chassis.http.access import anonymous
from chassis.http.declaration import route
from chassis.http.operation import Parameter
from chassis.http.validation import Issues, bounded_text, single_value
from control.http.context import HandlerContext
from control.http.request_slots import RequestSlots
from control.identity.sso import connection_store, mapping
from control.identity.sso.connection_store import ConnectionOfOrganization
from control.identity.sso.login import browser, login_store
from control.identity.sso.login.browser import FORMAT, ORG_SLUG, SsoUrls
from control.identity.sso.login.completion import COMPLETED, Completion, Vouched
from control.identity.sso.login.login_store import StoredLogin
from control.identity.sso.mapping import is_mfa_asserted
from control.identity.sso.oidc.code_flow import TokenResponse, check_response_issuer, exchange_code, fetch_userinfo
from control.identity.sso.oidc.id_token import IdToken, UnknownKey, verify_id_token
from control.identity.sso.oidc.provider import ProviderMetadata, Providers
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import Protocol
from control.outbound.egress import Egress
from control.secrets.secret_box import SecretBox

MAX_CODE: Final = 4_096
MAX_STATE: Final = 512
MAX_ERROR: Final = 256
MAX_ERROR_DESCRIPTION: Final = 1_024

PARAMETERS: Final = (
    ORG_SLUG,
    FORMAT,
    Parameter("code", "query", Annotated[str, Meta(min_length=1, max_length=MAX_CODE)], "The authorization code."),
    Parameter("state", "query", Annotated[str, Meta(min_length=1, max_length=MAX_STATE)], "The state of the login."),
    Parameter("iss", "query", str, "The issuer of the answer (RFC 9207)."),
    Parameter("error", "query", Annotated[str, Meta(max_length=MAX_ERROR)], "Why the provider refuses."),
    Parameter(
        "error_description", "query", Annotated[str, Meta(max_length=MAX_ERROR_DESCRIPTION)], "The same for people."
    ),
)
# Logins of one organization in this process that wait for its provider, each with one connection to it at a time: a
# provider that hangs must not take the connections of all organizations.
MAX_AT_PROVIDER: Final = 16
RETRY_AFTER_S: Final = 5
TOO_SLOW: Final = "The identity provider is slow: too many logins wait for it. Try again."


@dataclass(frozen=True, slots=True)
class _Query:
    """The parameters of a callback."""

    ending: browser.Format
    code: str | None
    state: str | None
    error: str | None
    issuer: str | None


@dataclass(frozen=True, slots=True)
class Callback:
    """The handler of callbacks, and its dependencies."""

    context: HandlerContext
    secret_box: SecretBox
    egress: Egress
    urls: SsoUrls
    providers: Providers
    completion: Completion
    slots: RequestSlots

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

        The provider sends the browser here. Every refusal is the same 400; the audit log has the reason.
        """
        browser.require_navigation(request)
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        query = _read_query(request, issues)
        found = await self.completion.find_connection(request, org_slug, Protocol.OIDC)
        # The slot is taken before the login is used: the browser may ask again.
        async with self.slots.taken(found.connection.org_id), self.completion.refusing(request, found):
            return await self._complete(request, found, query)

    async def _complete(
        self, request: web.Request, found: ConnectionOfOrganization, query: _Query
    ) -> web.StreamResponse:
        state = query.state or ""
        binding = browser.binding_of(request, state)
        login = await self._use_login(found, state, binding)
        if query.error is not None:
            raise LoginRefused("provider_error", f"The provider answers: {query.error}.")
        if query.code is None:
            raise LoginRefused("code_missing", "The provider sent no code.")
        stored = found.connection
        metadata = await self.providers.metadata(stored.oidc_issuer or "", account=stored.org_id)
        check_response_issuer(metadata, query.issuer)
        response = await self._exchange(found, metadata, query.code, binding or "")
        id_token = await self._verify(found, metadata, response, binding or "")
        claims = await self._claims(found, metadata, response, id_token)
        vouched = Vouched(
            subject=id_token.subject,
            profile=mapping.read_profile(Protocol.OIDC, stored.attribute_mapping, claims),
            mfa=is_mfa_asserted(id_token.auth_methods, id_token.acr),
        )
        return await self.completion.complete(request, found, login, state, vouched, query.ending)

    async def _use_login(self, found: ConnectionOfOrganization, state: str, binding: str | None) -> StoredLogin:
        """The login that this browser has begun; from here on it is used, whatever follows. Raises LoginRefused."""
        if not browser.is_secret(state):
            raise LoginRefused("state_missing", "The request has no state of ours: the login was not begun here.")
        now, connection_id = datetime.now(UTC), found.connection.id
        async with self.context.database.write() as connection:
            login = await login_store.find_login(connection, connection_id, state, now)
            login = browser.require_same_browser(login, binding)
            if not await login_store.use_login(connection, connection_id, state, now):
                raise LoginRefused("state_unknown", "The login is not known, was used, or has expired.")
        return login

    async def _exchange(
        self, found: ConnectionOfOrganization, metadata: ProviderMetadata, code: str, binding: str
    ) -> TokenResponse:
        stored = found.connection
        return await exchange_code(
            self.egress,
            metadata,
            client_id=stored.oidc_client_id or "",
            client_secret=connection_store.decrypt_field(self.secret_box, stored, "oidc_client_secret"),
            code=code,
            code_verifier=browser.derive(binding, "pkce"),
            redirect_uri=self.urls.callback(found.org_slug),
            account=stored.org_id,
        )

    async def _verify(
        self, found: ConnectionOfOrganization, metadata: ProviderMetadata, response: TokenResponse, binding: str
    ) -> IdToken:
        """The verified ID token; the keys are fetched once more for one that is signed with another key."""
        account, unknown_kid = found.connection.org_id, None
        while True:
            keys = await self.providers.key_set(metadata, account=account, unknown_kid=unknown_kid)
            try:
                return verify_id_token(
                    response.id_token,
                    keys,
                    issuer=metadata.issuer,
                    client_id=found.connection.oidc_client_id or "",
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
        found: ConnectionOfOrganization,
        metadata: ProviderMetadata,
        response: TokenResponse,
        id_token: IdToken,
    ) -> Mapping[str, Any]:
        """The claims of the ID token; with those of userinfo, if it lacks one that is needed and there is one."""
        stored = found.connection
        needed = mapping.needs_userinfo(stored.attribute_mapping, stored.role_mapping, id_token.claims)
        if not needed or metadata.userinfo_endpoint is None or response.access_token is None:
            return id_token.claims
        more = await fetch_userinfo(self.egress, metadata, response.access_token, account=stored.org_id)
        if more.get("sub") != id_token.subject:  # OpenID Connect core 5.3.2: else it must not be used
            raise LoginRefused("userinfo_subject_mismatch", "Userinfo is that of another subject.")
        return mapping.merge_claims(id_token.claims, more)


def _read_query(request: web.Request, issues: Issues) -> _Query:
    """Raises BadRequest with `issues`, and one for every parameter out of its bounds."""
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
