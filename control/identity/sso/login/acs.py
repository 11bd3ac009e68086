"""`POST /sso/saml/{orgSlug}/acs`, the assertion consumer service (specification 4.7), and the metadata of the service
provider.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from chassis.errors import BadRequest, NotFound
from chassis.http.access import anonymous
from chassis.http.body import read_body
from chassis.http.declaration import route
from chassis.http.media_type import require_media_type
from chassis.http.operation import JSON_TYPE, Body, ResponseSpec
from chassis.http.validation import Issues, decode_json
from control.http.context import HandlerContext
from control.identity.sso import connection_store, mapping
from control.identity.sso.connection_store import ConnectionOfOrganization
from control.identity.sso.login import browser, login_store
from control.identity.sso.login.browser import FORMAT, ORG_SLUG, SsoUrls
from control.identity.sso.login.completion import COMPLETED, Completion, Vouched
from control.identity.sso.login.login_store import StoredLogin
from control.identity.sso.mapping import is_mfa_asserted
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.certificates import parse_certificate
from control.identity.sso.saml.response import Assertion, ExpectedResponse, verify_response
from control.identity.sso.saml.service_provider import build_metadata
from control.identity.sso.tables import Protocol
from control.secrets.secret_box import SecretBox

# 256 KiB of XML in base64 with line breaks, percent-encoded in a form: a third more, then up to a tenth.
MAX_BODY_BYTES: Final = 512 * 1_024
MAX_VERIFICATIONS: Final = 2  # at once; each takes milliseconds of a core
EMAIL_FORMAT: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
AUTHN_METHODS: Final = "http://schemas.microsoft.com/claims/authnmethodsreferences"

_FORM: Final = "application/x-www-form-urlencoded"
_METADATA: Final = "application/samlmetadata+xml"


class AssertionPost(msgspec.Struct, frozen=True):
    """What a SAML provider posts."""

    saml_response: str = msgspec.field(name="SAMLResponse")
    relay_state: str | None = msgspec.field(default=None, name="RelayState")


class AssertionConsumer:
    """Handlers of SAML responses and metadata, and their dependencies."""

    def __init__(self, context: HandlerContext, secret_box: SecretBox, urls: SsoUrls, completion: Completion) -> None:
        self._context = context
        self._secret_box = secret_box
        self._urls = urls
        self._completion = completion
        self._verifications = asyncio.Semaphore(MAX_VERIFICATIONS)

    @route(
        "POST",
        "/sso/saml/{orgSlug}/acs",
        anonymous(),
        body=Body({"application/json": AssertionPost, _FORM: AssertionPost}),
        parameters=(ORG_SLUG, FORMAT),
        responses=COMPLETED,
        only_errors=browser.ERROR_STATUSES,
    )
    async def complete_saml_login(self, request: web.Request) -> web.StreamResponse:
        """Complete a login through a SAML provider.

        The provider lets the browser post its response here. Every refusal is the same 400; the audit log has the
        reason. Responses that nobody has asked for (IdP-initiated) are refused.
        """
        browser.require_navigation(request)
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        ending = browser.read_format(request, issues)
        issues.raise_if_any()
        found = await self._completion.find_connection(request, org_slug, Protocol.SAML)
        posted = await self._read(request)
        async with self._completion.refusing(request, found):
            return await self._complete(request, found, posted, ending)

    @route(
        "GET",
        "/sso/saml/{orgSlug}/metadata",
        anonymous(),
        parameters=(ORG_SLUG,),
        responses=(ResponseSpec("The metadata (SAML metadata 2.0).", {_METADATA: None}),),
        errors=(404,),
    )
    async def get_saml_metadata(self, request: web.Request) -> web.StreamResponse:
        """Get the metadata of the service provider, for the identity provider.

        404 without a SAML connection, enabled or not.
        """
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        issues.raise_if_any("The path is not valid.")
        async with self._context.database.read() as connection:
            if not await connection_store.is_configured(connection, org_slug, Protocol.SAML):
                raise NotFound
        document = build_metadata(self._urls.entity_id(org_slug), self._urls.acs(org_slug))
        return web.Response(body=document, content_type=_METADATA)

    async def _complete(
        self, request: web.Request, found: ConnectionOfOrganization, posted: AssertionPost, ending: browser.Format
    ) -> web.StreamResponse:
        state, stored = posted.relay_state or "", found.connection
        login = await self._find_login(request, found, state)
        assertion = await self._verify(found, login, posted.saml_response)
        named = assertion.subject if assertion.subject_format == EMAIL_FORMAT else ""
        vouched = Vouched(
            subject=assertion.subject,
            profile=mapping.read_profile(Protocol.SAML, stored.attribute_mapping, assertion.attributes, named),
            mfa=is_mfa_asserted(assertion.attributes.get(AUTHN_METHODS, ()), assertion.authn_context),
            session_expires_at=assertion.session_not_on_or_after,
            assertion_id=assertion.id,
            assertion_expires_at=assertion.not_on_or_after,
        )
        return await self._completion.complete(request, found, login, state, vouched, ending)

    async def _find_login(self, request: web.Request, found: ConnectionOfOrganization, state: str) -> StoredLogin:
        """The login that this browser has begun; it is used with the assertion, in one transaction."""
        if not browser.is_secret(state):
            raise LoginRefused("state_missing", "The response has no RelayState of ours: nobody has asked for it.")
        async with self._context.database.read() as connection:
            login = await login_store.find_login(connection, found.connection.id, state, datetime.now(UTC))
        return browser.require_same_browser(login, browser.binding_of(request, state))

    async def _verify(self, found: ConnectionOfOrganization, login: StoredLogin, encoded: str) -> Assertion:
        """What the signature covers, verified in a thread. Raises LoginRefused."""
        texts = connection_store.certificates_of(self._secret_box, found.connection)
        expected = ExpectedResponse(
            certificates=tuple(parse_certificate(text) for text in texts),
            idp_entity_id=found.connection.idp_entity_id or "",
            sp_entity_id=self._urls.entity_id(found.org_slug),
            acs_url=self._urls.acs(found.org_slug),
            request_id=login.request_id,
            now=datetime.now(UTC),
        )
        async with self._verifications:
            return await asyncio.to_thread(verify_response, encoded, expected)

    async def _read(self, request: web.Request) -> AssertionPost:
        """The posted form, or JSON. Raises BadRequest and what becomes one: PayloadTooLarge, UnsupportedMediaType."""
        media_type = require_media_type(request, (_FORM, JSON_TYPE))
        raw = await read_body(request, MAX_BODY_BYTES, self._context.body_timeout_s)
        issues = Issues()
        posted = _decode_form(raw, issues) if media_type == _FORM else decode_json(AssertionPost, raw, "body", issues)
        issues.raise_if_any("The request body is not valid.")
        if posted is None:
            raise BadRequest("The request body is not valid.")
        return posted


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
