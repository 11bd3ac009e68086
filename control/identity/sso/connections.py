"""`/orgs/{orgSlug}/sso/connections`: list, configure and delete connections to providers (specification 4.7)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import BadRequest, Conflict, Forbidden, Issue, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import route
from chassis.http.route import Body, json_content
from chassis.http.validation import Issues, must_be_one_of
from control.audit.record import Actor
from control.identity.sso import connection_store as store
from control.identity.sso import identities, options
from control.identity.sso.accounts import ConnectionDryRun, ConnectionDryRunResult, dry_run
from control.identity.sso.bodies import (
    NAMES,
    CheckedChange,
    ConnectionChange,
    ConnectionList,
    Deleted,
    SsoConnection,
    check_change,
)
from control.identity.sso.connection_store import StoredConnection
from control.identity.sso.saml.certificates import IdpCertificate, parse_certificate
from control.identity.sso.tables import Protocol
from control.identity.users.session_store import find_break_glass
from control.routing.arguments import Handlers, Transaction, begin
from control.routing.resource import shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Role, Scope

PATH: Final = "/orgs/{orgSlug}/sso/connections"
ONE: Final = PATH + "/{protocol}"
CHANGE: Final = Body(
    json_content(ConnectionChange),
    example={
        "enabled": True,
        "oidcIssuer": "https://idp.example.com/realms/acme",
        "oidcClientId": "sluice",
        "oidcClientSecret": "correct horse battery staple",
        "roleMapping": {"platform-team": "ADMIN"},
    },
)
DRY_RUN: Final = {"attributes": {"email": "ada@example.com", "name": "Ada", "groups": ["platform-team"]}}
MAX_AUDITED_BYTES: Final = 4_096  # size of a mapping up to which the audit log has the whole mapping
_PROVIDER: Final = ("idp_entity_id", "idp_sso_url", "oidc_issuer", "oidc_client_id")
_MAPPINGS: Final = ("attribute_mapping", "role_mapping")

# Gives the managed members the roles of their groups: among these users of the directory, or (None) all.
UpdateRoles = Callable[[AsyncConnection, Actor, Collection[str] | None, str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Connections(Handlers):
    """Handlers of connections, and their dependencies."""

    secret_box: SecretBox
    update_roles: UpdateRoles

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def list_sso_connections(self, caller: AuthorizationContext, connection: AsyncConnection) -> ConnectionList:
        """List the connections of the organization.

        Certificates and the client secret are never returned.
        """
        return ConnectionList([_body(each) for each in await store.list_connections(connection, caller.org_id)])

    @route("PUT", ONE, bearer(Scope.SSO_WRITE), body=CHANGE, errors=(409,))
    async def put_sso_connection(self, protocol: Protocol, request: web.Request) -> SsoConnection:
        """Configure a connection. It is created if there is none.

        Null clears a field, an omitted field is not changed. Alternate certificates are replaced as a whole. Another
        `idpEntityId`, `oidcIssuer` or `oidcClientId` is another provider: the links of the previous provider's users
        are deleted, and their sessions end. Disabling the connection also ends their sessions, but keeps the links.

        409 for enabling a connection with missing fields. 409 for enforcing a connection that is not enabled, through
        which no user has logged in yet, or while no owner has a password. 409 for changing the provider of an enforced
        connection. While a connection is enforced, members cannot log in with a password, except for one owner
        (`/sso/settings`), and sessions that began with a password end.

        403 for agents, services and tokens that act on behalf of a principal, because only users may configure
        connections. 403 for adding a certificate while an owner is linked, unless you are an owner, because the holder
        of its key could log in as the owner. Owners can log in after an owner has confirmed the present provider and
        certificates, by any change, for example `{}`.
        """
        change = await self._read_change(request)
        async with begin(self.context, request) as transaction:
            connection, caller, now = transaction.connection, transaction.caller, datetime.now(UTC)
            before = await store.find_connection(connection, caller.org_id, protocol)
            after = self._changed(before or store.new_connection(caller.org_id, protocol, now), change)
            await _require_consistent(connection, before, after)
            confirmed = await self._is_confirmed(connection, caller, before, after, change)
            if before is not None and (before.is_other_provider(after) or (before.enabled and not after.enabled)):
                await options.end_federated_sessions(connection, caller.org_id, before.id, now)
            stored = await store.store(connection, before, replace(after, confirmed_by_owner=confirmed), now)
            action = "sso.connection.create" if before is None else "sso.connection.update"
            await self._finish(transaction, action, stored.id, _audit_data(before, stored, change), now)
        return _body(stored)

    @route("DELETE", ONE, bearer(Scope.SSO_WRITE))
    async def delete_sso_connection(self, protocol: Protocol, transaction: Transaction) -> Deleted:
        """Delete a connection.

        Its users are unlinked and their sessions end. Accounts and memberships stay. Single sign-on is no longer
        enforced, unless the other connection is enforced.
        """
        connection, org_id, now = transaction.connection, transaction.caller.org_id, datetime.now(UTC)
        found = await store.find_connection(connection, org_id, protocol)
        if found is None:
            raise NotFound
        await options.end_federated_sessions(connection, org_id, found.id, now)
        await store.delete(connection, found.id)
        data = {"protocol": protocol.value, "enforced": found.enforced}
        await self._finish(transaction, "sso.connection.delete", found.id, data, now)
        return Deleted()

    @route("POST", ONE + "/dry-run", bearer(Scope.SSO_READ), example=DRY_RUN)
    async def dry_run_sso_connection(
        self, protocol: Protocol, body: ConnectionDryRun, caller: AuthorizationContext, connection: AsyncConnection
    ) -> ConnectionDryRunResult:
        """Show what a login with these attributes would do, without doing it.

        The attributes are mapped by the present configuration of the connection, enabled or not. If a `subject` of SAML
        is an address, it counts as a NameID whose format says that it is an address.
        """
        stored = await store.find_connection(connection, caller.org_id, protocol)
        if stored is None:
            raise NotFound
        return await dry_run(connection, caller, stored, body)

    async def _finish(
        self, transaction: Transaction, action: str, connection_id: str, data: Mapping[str, object], now: datetime
    ) -> None:
        """Apply the consequences of a change: the enforcement, an event of the audit log, roles of managed members."""
        connection, caller = transaction.connection, transaction.caller
        await options.update_enforcement(connection, caller.org_id, now)
        await transaction.record(action, connection_id, data)
        await self.update_roles(connection, Actor.of(caller), None, transaction.request_id)
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)

    async def _read_change(self, request: web.Request) -> CheckedChange:
        """The change in the body. Raises BadRequest with all faults of the body."""
        issues = Issues()
        change = await self.context.read_partial_body(request, ConnectionChange, {}, issues)
        checked = None if change is None else await asyncio.to_thread(check_change, change, issues)
        issues.raise_if_any("The request body is not valid.")
        if checked is None:
            raise TypeError("a body without issues was not decoded")
        return checked

    async def _is_confirmed(
        self,
        connection: AsyncConnection,
        caller: AuthorizationContext,
        before: StoredConnection | None,
        after: StoredConnection,
        change: CheckedChange,
    ) -> bool:
        """Whether an owner has confirmed the provider and its certificates as they are after the change. Raises
        Forbidden for a new certificate whose key could log in as an owner, unless the caller is an owner. Otherwise
        administrators could become owners.
        """
        if caller.role is Role.OWNER:
            return True
        if before is None or before.is_other_provider(after):  # another provider unlinks all users
            return False
        given = {each.pem for each in change.certificates()}
        if not given or given.issubset(store.certificates_of(self.secret_box, before)):
            return before.confirmed_by_owner
        if await identities.links_owner(connection, before.id):
            raise Forbidden("Only owners can add a certificate to a connection through which an owner logs in.")
        return False

    def _changed(self, before: StoredConnection, checked: CheckedChange) -> StoredConnection:
        """The connection with the change. Raises EncryptionUnavailable."""
        change, primary, alternates = checked.change, checked.primary, checked.alternates
        names = ("enabled", "enforced", "oidc_scopes", *_PROVIDER, *_MAPPINGS)
        values: dict[str, Any] = {name: value for name in names if (value := getattr(change, name)) is not UNSET}
        if change.default_role is not UNSET:
            values["default_role"] = Role(change.default_role)
        if change.oidc_client_secret is not UNSET:
            values["oidc_client_secret"] = self._sealed(before, "oidc_client_secret", change.oidc_client_secret)
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
        """The time at which the first of the connection's certificates expires, after the change."""
        if primary is UNSET:
            text = store.decrypt_field(self.secret_box, before, "idp_certificate")
            primary = None if text is None else parse_certificate(text)
        if alternates is UNSET:
            alternates = [parse_certificate(each) for each in store.alternates_of(self.secret_box, before)]
        present: list[IdpCertificate] = [*([] if primary is None else [primary]), *alternates]
        return min((each.not_after for each in present), default=None)


async def read_protocol(request: web.Request, _stack: AsyncExitStack) -> Protocol:
    """The protocol in the path. Raises BadRequest."""
    text = request.match_info["protocol"]
    if text not in set(Protocol):
        raise BadRequest("The path is not valid.", [Issue("path.protocol", must_be_one_of(Protocol), "not_allowed")])
    return Protocol(text)


async def _require_consistent(
    connection: AsyncConnection, before: StoredConnection | None, after: StoredConnection
) -> None:
    """Raises Conflict for a connection that cannot work, or that would lock out all users."""
    if after.enabled and (missing := after.missing()):
        raise Conflict(f"An enabled {after.protocol} connection needs {', '.join(missing)}.")
    if not after.enforced:
        return
    if not after.enabled:
        raise Conflict("A connection that is not enabled cannot be enforced. Set enforced to false as well.")
    if before is not None and before.is_other_provider(after):
        raise Conflict("The provider of an enforced connection cannot be changed. Set enforced to false first.")
    if after.tested_at is None:
        raise Conflict("No user has logged in through this connection yet. Log in once, then enforce it.")
    if await find_break_glass(connection, after.org_id) is None:
        raise Conflict(
            "No owner has a password, so no user could log in if the provider failed. Invite such an owner first."
        )


def _audit_data(before: StoredConnection | None, after: StoredConnection, checked: CheckedChange) -> dict[str, object]:
    """The change without secrets. Certificates are given by their SHA-256 fingerprints, because their keys can log in
    as any user.
    """
    named = [name for name in NAMES if getattr(checked.change, name) is not UNSET]
    data: dict[str, object] = {
        "protocol": after.protocol.value,
        "fields": [NAMES[name] for name in named],
        "enabled": after.enabled,
        "enforced": after.enforced,
        "defaultRole": after.default_role.value,
    }
    for name in named:
        if name in _PROVIDER:
            data[NAMES[name]] = getattr(after, name)
        elif name in _MAPPINGS:
            size = len(msgspec.json.encode(getattr(after, name)))
            data[NAMES[name]] = getattr(after, name) if size <= MAX_AUDITED_BYTES else f"{size} bytes"
    if checked.primary is not UNSET:
        data["idpCertificate"] = "" if checked.primary is None else checked.primary.fingerprint
    if checked.alternates is not UNSET:
        data["idpCertificateAlternates"] = [each.fingerprint for each in checked.alternates]
    if before is not None and before.names_provider and before.is_other_provider(after):
        data["otherProvider"] = True
    return data


def _body(stored: StoredConnection) -> SsoConnection:
    return shown_as(
        SsoConnection,
        stored,
        idp_certificate_configured=stored.idp_certificate is not None,
        oidc_client_secret_configured=stored.oidc_client_secret is not None,
    )
