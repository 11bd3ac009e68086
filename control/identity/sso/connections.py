"""`/orgs/{orgSlug}/sso/connections`: list, configure and delete connections to providers (specification 4.7)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import BadRequest, Conflict, Forbidden, Issue, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, must_be_one_of
from chassis.http.web import Route, json_response, request_id
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.http.field_types import check_url
from control.identity.enforcement import find_break_glass
from control.identity.sso import connection_repository as store
from control.identity.sso import identity_repository, settings_repository
from control.identity.sso.connection_repository import StoredConnection
from control.identity.sso.mapping import MAPPED
from control.identity.sso.saml.certificates import IdpCertificate, parse_certificate
from control.identity.sso.schemas import ConnectionChange, ConnectionList, Deleted, SsoConnection, connection_body
from control.identity.sso.tables import Protocol
from control.secrets.secret_box import SecretBox
from proto.identity import PrincipalKind, Role, Scope

TAG: Final = Tag("sso", "Single sign-on through the organization's identity provider: SAML 2.0, OpenID Connect.")
PROTOCOL: Final = Parameter("protocol", "path", Protocol, "SAML or OIDC.")
LIST: Final = Operation("listSsoConnections", TAG, (ResponseSpec("The connections.", json_content(ConnectionList)),))
PUT: Final = Operation(
    "putSsoConnection",
    TAG,
    (ResponseSpec("The connection.", json_content(SsoConnection)),),
    (PROTOCOL,),
    body=Body(
        json_content(ConnectionChange),
        example={
            "enabled": True,
            "oidcIssuer": "https://idp.example.com/realms/acme",
            "oidcClientId": "sluice",
            "oidcClientSecret": "correct horse battery staple",
            "roleMapping": {"platform-team": "ADMIN"},
        },
    ),
    error_statuses=(409,),
)
DELETE: Final = Operation(
    "deleteSsoConnection", TAG, (ResponseSpec("The connection was deleted.", json_content(Deleted)),), (PROTOCOL,)
)

_PLAIN: Final = ("enabled", "enforced", "idp_entity_id", "idp_sso_url", "oidc_issuer", "oidc_client_id")


MAX_AUDITED_BYTES: Final = 4_096  # of a mapping that the audit log has as a whole


# Gives the members whom the directory manages (among these of its users; None: all) the roles of their groups.
ApplyRoles = Callable[[AsyncConnection, Actor, Collection[str] | None, str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class _Certificates:
    """The certificates of a change, parsed; UNSET and None as there."""

    primary: Any
    alternates: Any

    def given(self) -> list[IdpCertificate]:
        """All of them."""
        return [each for each in (self.primary, *(self.alternates or ())) if isinstance(each, IdpCertificate)]


@dataclass(frozen=True, slots=True)
class Connections:
    """Handlers of connections, and their dependencies."""

    context: HandlerContext
    secret_box: SecretBox
    apply_roles: ApplyRoles

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/sso/connections"
        one, write = every + "/{protocol}", bearer(Scope.SSO_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.SSO_READ), operation=LIST),
            Route("PUT", one, self.put, write, operation=PUT),
            Route("DELETE", one, self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the connections of the organization.

        Certificates and the client secret are never returned.
        """
        async with self.context.database.read() as connection:
            found = await store.list_connections(connection, authorization_context(request).org_id)
        return json_response(ConnectionList([connection_body(each) for each in found]))

    async def put(self, request: web.Request) -> web.StreamResponse:
        """Configure a connection; it is created if there is none.

        Null clears a field, an absent one stays; alternate certificates are replaced as a whole. Another `idpEntityId`,
        `oidcIssuer` or `oidcClientId` is another provider: users who were linked by the one before are unlinked, and
        their sessions end. They also end when the connection is disabled, which unlinks nobody. 409: to enable a
        connection that lacks something; to enforce one that is not enabled or that nobody has logged in through yet, or
        while no owner has a password; to change the provider of an enforced one. While a connection is enforced,
        members cannot log in with a password, but for one owner (`/sso/settings`), and sessions that a password began
        end. Only users may: agents, services and tokens that act on behalf of a principal get 403. So does whoever is
        no owner and adds a certificate while an owner is linked: its key could log in as the owner. Owners log in once
        an owner has confirmed provider and certificates as they are, by any change, if only `{}`.
        """
        protocol = parse_protocol(request)
        require_user(authorization_context(request))
        issues = Issues()
        change = await self.context.read_partial_body(request, ConnectionChange, {}, issues)
        certificates = _Certificates(UNSET, UNSET)
        if change is not None:
            _check(change, issues)
            certificates = await asyncio.to_thread(_parse_certificates, change, issues)
        issues.raise_if_any("The request body is not valid.")
        if change is None:
            raise TypeError("a body without issues was not decoded")
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            now = datetime.now(UTC)
            before = await store.find_connection(connection, caller.org_id, protocol)
            after = self._changed(before or store.new_connection(caller.org_id, protocol, now), change, certificates)
            await _require_consistent(connection, before, after)
            if before is not None and not before.is_other_provider(after):  # which unlinks everybody
                await self._require_may_certify(connection, caller, before, certificates)
            if before is not None and (before.is_other_provider(after) or (before.enabled and not after.enabled)):
                await settings_repository.end_federated_sessions(connection, caller.org_id, before.id, now)
            after = replace(after, confirmed_by_owner=self._is_confirmed(caller, before, after, certificates))
            stored = await store.store(connection, before, after, now)
            await settings_repository.apply_enforcement(connection, caller.org_id, now)
            await record(
                connection,
                caller,
                "sso.connection.create" if before is None else "sso.connection.update",
                stored.id,
                _audit_data(before, stored, change, certificates),
                request_id(request),
            )
            await self.apply_roles(connection, Actor.of(caller), None, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return json_response(connection_body(stored))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a connection.

        Its users are unlinked and their sessions end; accounts and memberships stay. Single sign-on is no longer
        enforced, unless the other connection is.
        """
        protocol = parse_protocol(request)
        require_user(authorization_context(request))
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            found = await store.find_connection(connection, caller.org_id, protocol)
            if found is None:
                raise NotFound
            now = datetime.now(UTC)
            await settings_repository.end_federated_sessions(connection, caller.org_id, found.id, now)
            await store.delete(connection, found.id)
            await settings_repository.apply_enforcement(connection, caller.org_id, now)
            data = {"protocol": protocol.value, "enforced": found.enforced}
            await record(connection, caller, "sso.connection.delete", found.id, data, request_id(request))
            await self.apply_roles(connection, Actor.of(caller), None, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return json_response(Deleted())

    def _is_confirmed(
        self,
        caller: AuthorizationContext,
        before: StoredConnection | None,
        after: StoredConnection,
        certificates: _Certificates,
    ) -> bool:
        """Whether an owner has confirmed the provider and its certificates as they are after the change."""
        if caller.role is Role.OWNER:
            return True
        if before is None or before.is_other_provider(after) or self._adds(before, certificates):
            return False
        return before.confirmed_by_owner

    def _adds(self, before: StoredConnection, certificates: _Certificates) -> bool:
        """Whether there is a certificate that the connection did not have."""
        given = {each.pem for each in certificates.given()}
        return bool(given) and not given.issubset(store.certificates_of(self.secret_box, before))

    async def _require_may_certify(
        self,
        connection: AsyncConnection,
        caller: AuthorizationContext,
        before: StoredConnection,
        certificates: _Certificates,
    ) -> None:
        """Raises Forbidden for a new certificate that could assert an owner, unless the caller is one: administrators
        must not become owners.
        """
        if caller.role is Role.OWNER or not self._adds(before, certificates):
            return
        if await identity_repository.links_owner(connection, before.id):
            raise Forbidden("Only owners can add a certificate to a connection that an owner logs in through.")

    def _changed(
        self, before: StoredConnection, change: ConnectionChange, certificates: _Certificates
    ) -> StoredConnection:
        """The connection with the change. Raises EncryptionUnavailable."""
        values: dict[str, Any] = {name: value for name in _PLAIN if (value := getattr(change, name)) is not UNSET}
        if change.default_role is not UNSET:
            values["default_role"] = Role(change.default_role)
        for name in ("attribute_mapping", "role_mapping", "oidc_scopes"):
            if (value := getattr(change, name)) is not UNSET:
                values[name] = value
        if change.oidc_client_secret is not UNSET:
            values["oidc_client_secret"] = self._sealed(before, "oidc_client_secret", change.oidc_client_secret)
        primary, alternates = certificates.primary, certificates.alternates
        if primary is not UNSET:
            values["idp_certificate"] = self._sealed(before, "idp_certificate", primary and primary.pem)
        if alternates is not UNSET:
            text = msgspec.json.encode([each.pem for each in alternates]).decode() if alternates else None
            values["idp_certificate_alternates"] = self._sealed(before, "idp_certificate_alternates", text)
            values["idp_certificate_alternate_count"] = len(alternates)
        if primary is not UNSET or alternates is not UNSET:
            values["certificate_expires_at"] = self._expiry(before, primary, alternates)
        return replace(before, **values)

    def _sealed(self, of: StoredConnection, column: str, plaintext: str | None) -> bytes | None:
        return None if plaintext is None else store.encrypt_field(self.secret_box, of, column, plaintext)

    def _expiry(self, before: StoredConnection, primary: Any, alternates: Any) -> datetime | None:
        """When the first certificate expires, of those that the connection has after the change."""
        if primary is UNSET:
            text = store.decrypt_field(self.secret_box, before, "idp_certificate")
            primary = None if text is None else parse_certificate(text)
        if alternates is UNSET:
            alternates = [parse_certificate(each) for each in store.alternates_of(self.secret_box, before)]
        present: list[IdpCertificate] = [*([] if primary is None else [primary]), *alternates]
        return min((each.not_after for each in present), default=None)


def require_user(caller: AuthorizationContext) -> None:
    """Raises Forbidden unless the caller is a user acting for itself: whoever configures a provider decides who every
    user is.
    """
    if caller.kind is not PrincipalKind.USER or caller.on_behalf_of is not None:
        raise Forbidden(
            "Only users can configure single sign-on: not agents, services, or tokens that act on behalf of another "
            "principal."
        )


def parse_protocol(request: web.Request) -> Protocol:
    """The protocol in the path. Raises BadRequest."""
    text = request.match_info["protocol"]
    if text not in set(Protocol):
        raise BadRequest("The path is not valid.", [Issue("path.protocol", must_be_one_of(Protocol), "not_allowed")])
    return Protocol(text)


def _check(change: ConnectionChange, issues: Issues) -> None:
    """Record an issue for every field that its type does not describe in full."""
    for name in ("idp_entity_id", "oidc_client_id"):
        value = getattr(change, name)
        if isinstance(value, str) and not value.isprintable():  # PostgreSQL takes no NUL; no provider has the others
            issues.add(f"body.{_encoded(name)}", "Must consist of printable characters.", "format")
    for name in ("idp_sso_url", "oidc_issuer"):
        value = getattr(change, name)
        path = f"body.{_encoded(name)}"
        if isinstance(value, str) and not issues.has_issue_under(path):
            _check_url(value, path, issues, is_issuer=name == "oidc_issuer")
    if isinstance(change.attribute_mapping, dict):
        for key in change.attribute_mapping:
            if key not in MAPPED:
                issues.add("body.attributeMapping", f"Keys: {must_be_one_of(MAPPED).lower()}", "unknown_field")
                break
    scopes = change.oidc_scopes
    if scopes is not UNSET and not issues.has_issue_under("body.oidcScopes") and "openid" not in scopes:
        issues.add("body.oidcScopes", "Must contain openid.", "missing")


def _check_url(text: str, path: str, issues: Issues, *, is_issuer: bool) -> None:
    """https only: browsers carry the login over it, and keys come from it (OpenID Connect discovery 3: an issuer has
    neither query nor fragment).
    """
    check_url(text, path, issues, allow_http=False)
    if issues.has_issue_under(path):
        return
    if "#" in text or (is_issuer and "?" in text):
        issues.add(path, "Must have no query and no fragment." if is_issuer else "Must have no fragment.", "format")


def _parse_certificates(change: ConnectionChange, issues: Issues) -> _Certificates:
    primary: Any = change.idp_certificate
    if isinstance(primary, str) and not issues.has_issue_under("body.idpCertificate"):
        primary = _parse_certificate(primary, "body.idpCertificate", issues)
    alternates: Any = change.idp_certificate_alternates
    if alternates is not UNSET and not issues.has_issue_under("body.idpCertificateAlternates"):
        alternates = [
            _parse_certificate(text, f"body.idpCertificateAlternates[{index}]", issues)
            for index, text in enumerate(alternates)
        ]
    return _Certificates(primary, alternates)


def _parse_certificate(text: str, path: str, issues: Issues) -> IdpCertificate | None:
    try:
        return parse_certificate(text)
    except ValueError as error:
        issues.add(path, str(error), "format")
        return None


async def _require_consistent(
    connection: AsyncConnection, before: StoredConnection | None, after: StoredConnection
) -> None:
    """Raises Conflict for a connection that cannot work, or that would lock everybody out."""
    if after.enabled and (missing := after.missing()):
        raise Conflict(f"An enabled {after.protocol} connection needs {', '.join(missing)}.")
    if not after.enforced:
        return
    if not after.enabled:
        raise Conflict("A connection that is not enabled cannot be enforced; set enforced to false as well.")
    if before is not None and before.is_other_provider(after):
        raise Conflict("The provider of an enforced connection cannot be changed; set enforced to false first.")
    if after.tested_at is None:
        raise Conflict("Nobody has logged in through this connection yet; log in once, then enforce it.")
    if await find_break_glass(connection, after.org_id) is None:
        raise Conflict("No owner has a password, so nobody could log in if the provider failed; invite one first.")


def _audit_data(
    before: StoredConnection | None, after: StoredConnection, change: ConnectionChange, certificates: _Certificates
) -> dict[str, object]:
    """What was changed, without secrets; of certificates the SHA-256 fingerprints: with these keys one can log in."""
    named: Sequence[str] = [name for name in ConnectionChange.__struct_fields__ if getattr(change, name) is not UNSET]
    data: dict[str, object] = {
        "protocol": after.protocol.value,
        "fields": [_encoded(name) for name in named],
        "enabled": after.enabled,
        "enforced": after.enforced,
        "defaultRole": after.default_role.value,
    }
    for name in ("idp_entity_id", "idp_sso_url", "oidc_issuer", "oidc_client_id"):
        if name in named:
            data[_encoded(name)] = getattr(after, name)
    for name in ("attribute_mapping", "role_mapping"):
        text = msgspec.json.encode(getattr(after, name))
        if name in named:
            data[_encoded(name)] = getattr(after, name) if len(text) <= MAX_AUDITED_BYTES else f"{len(text)} bytes"
    if certificates.primary is not UNSET:
        data["idpCertificate"] = "" if certificates.primary is None else certificates.primary.fingerprint
    if certificates.alternates is not UNSET:
        data["idpCertificateAlternates"] = [each.fingerprint for each in certificates.alternates]
    if before is not None and before.names_provider and before.is_other_provider(after):
        data["otherProvider"] = True
    return data


def _encoded(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
