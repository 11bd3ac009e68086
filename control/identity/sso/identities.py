"""`/orgs/{orgSlug}/sso/identities`: links between users of a provider and members; list, unlink.

An identity is (connection, subject), never the e-mail address. Functions with a `connection` run in the caller's
transaction.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import memberships, new_id
from chassis.db.database import to_milliseconds
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, route
from control.http.field_types import Timestamp
from control.identity.bodies import Email
from control.identity.sso import options
from control.identity.sso.tables import MAX_SUBJECT_LENGTH, hash_text, sso_identities
from control.routing.arguments import Handlers, Transaction
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import Role, Scope


class LinkedIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """A user of a provider, and the linked member."""

    id: str
    connection_id: str
    subject: Annotated[str, Meta(max_length=MAX_SUBJECT_LENGTH, description="NameID of SAML, `sub` of OIDC.")]
    principal_id: str
    email: Annotated[
        Email, Meta(description="The last address from the provider. The account may have another address.")
    ]
    created_at: Timestamp
    last_login_at: Timestamp


async def find_identity(connection: AsyncConnection, connection_id: str, subject: str) -> LinkedIdentity | None:
    """The identity of a subject."""
    where = (sso_identities.c.connection_id == connection_id) & (sso_identities.c.subject_hash == hash_text(subject))
    return await _load(connection, where)


async def find_identity_by_id(connection: AsyncConnection, identity_id: str) -> LinkedIdentity | None:
    """The identity with this id."""
    return await _load(connection, sso_identities.c.id == identity_id)


async def find_identity_of_account(
    connection: AsyncConnection, connection_id: str, principal_id: str
) -> LinkedIdentity | None:
    """The identity of an account, which has at most one in a connection."""
    where = (sso_identities.c.connection_id == connection_id) & (sso_identities.c.principal_id == principal_id)
    return await _load(connection, where)


async def links_owner(connection: AsyncConnection, connection_id: str) -> bool:
    """Whether a subject of the connection is linked to an owner."""
    statement = (
        sa.select(sso_identities.c.id)
        .join(
            memberships,
            (memberships.c.org_id == sso_identities.c.org_id)
            & (memberships.c.principal_id == sso_identities.c.principal_id),
        )
        .where(sso_identities.c.connection_id == connection_id, memberships.c.role == Role.OWNER.value)
        .limit(1)
    )
    return await connection.scalar(statement) is not None


async def list_identities(
    connection: AsyncConnection, after_id: str | None, limit: int, *, org_id: str
) -> Sequence[sa.Row[Any]]:
    """The rows of at most `limit` identities of the organization, by id, starting after `after_id`."""
    page = sa.select(sso_identities).where(sso_identities.c.org_id == org_id, sso_identities.c.id > (after_id or ""))
    return (await connection.execute(page.order_by(sso_identities.c.id).limit(limit))).all()


async def create_identity(
    connection: AsyncConnection,
    connection_id: str,
    org_id: str,
    subject: str,
    principal_id: str,
    email: str,
    now: datetime,
) -> str:
    """Link a subject to the account of a member. Returns the id of the identity."""
    now, identity_id = to_milliseconds(now), new_id("ssi")
    row = {
        "id": identity_id,
        "connection_id": connection_id,
        "org_id": org_id,
        "subject": subject,
        "subject_hash": hash_text(subject),
        "principal_id": principal_id,
        "email": email,
        "created_at": now,
        "last_login_at": now,
    }
    await connection.execute(sso_identities.insert().values(row))
    return identity_id


async def note_login(connection: AsyncConnection, identity_id: str, email: str, now: datetime) -> None:
    """Store the time of a login, and the address that the provider gave."""
    changed = sso_identities.update().where(sso_identities.c.id == identity_id)
    await connection.execute(changed.values(email=email, last_login_at=to_milliseconds(now)))


async def _load(connection: AsyncConnection, where: sa.ColumnElement[bool]) -> LinkedIdentity | None:
    row = (await connection.execute(sa.select(sso_identities).where(where))).one_or_none()
    return None if row is None else identity_body(row)


def identity_body(row: Any) -> LinkedIdentity:
    """The identity of a row."""
    return shown_as(LinkedIdentity, row)


PATH: Final = "/orgs/{orgSlug}/sso/identities"
IDENTITIES: Final = Resource(
    "identityId",
    ids("ssi"),
    Scope.SSO_READ,
    sso_identities.c.id,
    in_organization(sso_identities),
    sa.select(sso_identities),
    lambda row, _caller: identity_body(row),
)


class Identities(Handlers):
    """Handlers of identities, and their dependencies."""

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def list_sso_identities(self, caller: AuthorizationContext, page: PageReader) -> PageOf[LinkedIdentity]:
        """List the users of the organization's providers and the members that they are linked to."""
        fetch = partial(list_identities, org_id=caller.org_id)
        return await page.read(("sso identities", caller.org_id), fetch, identity_body)

    @route("DELETE", PATH + "/{identityId}", bearer(Scope.SSO_WRITE))
    async def unlink_sso_identity(self, identity_id: str, transaction: Transaction) -> None:
        """Unlink a user of a provider from a member.

        The member's single sign-on sessions end. The member stays in the organization. At the next login, the
        provider's user is unknown, and has to be linked again. Only users may unlink.
        """
        connection, caller = transaction.connection, transaction.caller
        found = await IDENTITIES.show(connection, caller, identity_id)
        await options.end_federated_sessions_of(connection, caller.org_id, found.principal_id, datetime.now(UTC))
        await IDENTITIES.delete(connection, caller, identity_id)
        data = {"principalId": found.principal_id, "connectionId": found.connection_id}
        await transaction.record("sso.unlink", identity_id, data)
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)
