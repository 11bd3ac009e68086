"""Connections to identity providers, as stored. Every function runs in the caller's transaction.

A change of the provider (`is_other_provider`) removes the data of the previous provider: its identities, logins and
codes, and the mark of a successful login. Otherwise an administrator could configure another provider that asserts the
subjects of the old one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, organizations
from chassis.db.database import to_milliseconds
from control.identity.sso.tables import (
    Protocol,
    sso_assertions,
    sso_connections,
    sso_handoff_codes,
    sso_identities,
    sso_logins,
)
from control.secrets.secret_box import SecretBox
from proto.identity import Role

DEFAULT_SCOPES: Final = ("openid", "email", "profile")


@dataclass(frozen=True, slots=True)
class StoredConnection:
    """A connection (specification 2.6), with its secrets encrypted. `tested_at`: the first successful login to the
    provider that is configured now. `confirmed_by_owner`: an owner has confirmed the present provider and certificates.
    """

    id: str
    org_id: str
    protocol: Protocol
    enabled: bool
    enforced: bool
    default_role: Role
    attribute_mapping: Mapping[str, str | Sequence[str]] | None
    role_mapping: Mapping[str, str] | None
    idp_entity_id: str | None
    idp_sso_url: str | None
    idp_certificate: bytes | None = field(repr=False)
    idp_certificate_alternates: bytes | None = field(repr=False)
    idp_certificate_alternate_count: int
    certificate_expires_at: datetime | None
    oidc_issuer: str | None
    oidc_client_id: str | None
    oidc_client_secret: bytes | None = field(repr=False)
    oidc_scopes: Sequence[str]
    tested_at: datetime | None
    confirmed_by_owner: bool
    created_at: datetime
    updated_at: datetime

    def missing(self) -> list[str]:
        """Names of the missing fields without which no user can log in."""
        if self.protocol is Protocol.SAML:
            needed = {
                "idpEntityId": self.idp_entity_id,
                "idpSsoUrl": self.idp_sso_url,
                "idpCertificate": self.idp_certificate,
            }
        else:
            needed = {"oidcIssuer": self.oidc_issuer, "oidcClientId": self.oidc_client_id}
        return [name for name, value in needed.items() if value is None]

    @property
    def names_provider(self) -> bool:
        """Whether the connection identifies a provider."""
        return any(_provider(self))

    def is_other_provider(self, other: "StoredConnection") -> bool:
        """Whether the connections are to different providers, so that their subjects differ."""
        return _provider(self) != _provider(other)


_COLUMNS: Final = tuple(each.name for each in fields(StoredConnection))
_LIVE: Final = (
    sa.select(sso_connections, organizations.c.slug)
    .join(organizations, organizations.c.id == sso_connections.c.org_id)
    .where(organizations.c.deleted_at.is_(None))
)


@dataclass(frozen=True, slots=True)
class ConnectionOfOrganization:
    """A connection, and the organization with its slug in the path."""

    connection: StoredConnection
    org_slug: str


def new_connection(org_id: str, protocol: Protocol, now: datetime) -> StoredConnection:
    """A connection without any configuration. It is not stored."""
    now = to_milliseconds(now)
    return StoredConnection(
        id=new_id("sso"),
        org_id=org_id,
        protocol=protocol,
        enabled=False,
        enforced=False,
        default_role=Role.VIEWER,
        attribute_mapping=None,
        role_mapping=None,
        idp_entity_id=None,
        idp_sso_url=None,
        idp_certificate=None,
        idp_certificate_alternates=None,
        idp_certificate_alternate_count=0,
        certificate_expires_at=None,
        oidc_issuer=None,
        oidc_client_id=None,
        oidc_client_secret=None,
        oidc_scopes=DEFAULT_SCOPES,
        tested_at=None,
        confirmed_by_owner=False,
        created_at=now,
        updated_at=now,
    )


def encrypt_field(secret_box: SecretBox, connection: StoredConnection, column: str, plaintext: str) -> bytes:
    """A secret of the connection in the form that is stored. Raises EncryptionUnavailable."""
    return secret_box.encrypt(
        plaintext.encode(), table=sso_connections.name, row=connection.id, org=connection.org_id, column=column
    )


def decrypt_field(secret_box: SecretBox, connection: StoredConnection, column: str) -> str | None:
    """A secret of the connection, None if it has none. Raises DecryptionError, EncryptionUnavailable."""
    value: bytes | None = getattr(connection, column)
    if value is None:
        return None
    return secret_box.decrypt(
        bytes(value), table=sso_connections.name, row=connection.id, org=connection.org_id, column=column
    ).decode()


def certificates_of(secret_box: SecretBox, connection: StoredConnection) -> list[str]:
    """The provider's certificates in PEM: the primary certificate, then the alternates. Raises the errors of
    `decrypt_field`.
    """
    primary = decrypt_field(secret_box, connection, "idp_certificate")
    return ([] if primary is None else [primary]) + alternates_of(secret_box, connection)


def alternates_of(secret_box: SecretBox, connection: StoredConnection) -> list[str]:
    """The alternates in PEM. Raises the errors of `decrypt_field`."""
    alternates = decrypt_field(secret_box, connection, "idp_certificate_alternates")
    return [] if alternates is None else msgspec.json.decode(alternates, type=list[str])


async def find_connection(connection: AsyncConnection, org_id: str, protocol: Protocol) -> StoredConnection | None:
    """The organization's connection of this protocol."""
    statement = sa.select(sso_connections).where(
        sso_connections.c.org_id == org_id, sso_connections.c.protocol == protocol.value
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _connection(row)


async def find_by_id(connection: AsyncConnection, connection_id: str) -> StoredConnection | None:
    """The connection with this id, unless its organization is deleted."""
    row = (await connection.execute(_LIVE.where(sso_connections.c.id == connection_id))).mappings().one_or_none()
    return None if row is None else _connection(row)


async def find_by_slug(
    connection: AsyncConnection, org_slug: str, protocol: Protocol
) -> ConnectionOfOrganization | None:
    """The connection, enabled or not, unless its organization is deleted."""
    statement = _LIVE.where(organizations.c.slug == org_slug, sso_connections.c.protocol == protocol.value)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else ConnectionOfOrganization(_connection(row), row["slug"])


async def list_connections(connection: AsyncConnection, org_id: str) -> list[StoredConnection]:
    """The connections of the organization, by protocol: at most two."""
    statement = (
        sa.select(sso_connections).where(sso_connections.c.org_id == org_id).order_by(sso_connections.c.protocol)
    )
    return [_connection(row) for row in (await connection.execute(statement)).mappings()]


async def store(
    connection: AsyncConnection, before: StoredConnection | None, after: StoredConnection, now: datetime
) -> StoredConnection:
    """Insert (`before` None) or replace a connection. Deletes the data of another provider."""
    after = replace(after, updated_at=to_milliseconds(now))
    if before is not None and before.is_other_provider(after):
        after = replace(after, tested_at=None)
        await _delete_links(connection, before.id)
    row = {name: getattr(after, name) for name in _COLUMNS}
    if before is None:
        await connection.execute(sso_connections.insert().values(row))
    else:
        await connection.execute(sso_connections.update().where(sso_connections.c.id == before.id).values(row))
    return after


async def mark_tested(connection: AsyncConnection, connection_id: str, now: datetime) -> bool:
    """Store the first successful login to this provider. False if an earlier login succeeded."""
    untested = (sso_connections.c.id == connection_id) & sso_connections.c.tested_at.is_(None)
    marked = sso_connections.update().where(untested).values(tested_at=to_milliseconds(now))
    return (await connection.execute(marked)).rowcount == 1


async def release(connection: AsyncConnection, connection_id: str, now: datetime) -> None:
    """End the enforcement of a connection."""
    changed = sso_connections.update().where(sso_connections.c.id == connection_id)
    await connection.execute(changed.values(enforced=False, updated_at=to_milliseconds(now)))


async def delete(connection: AsyncConnection, connection_id: str) -> None:
    """Delete a connection with its identities, logins and codes. Accounts and memberships stay."""
    await _delete_links(connection, connection_id)
    await connection.execute(sso_connections.delete().where(sso_connections.c.id == connection_id))


async def list_expiring(connection: AsyncConnection, before: datetime) -> Sequence[sa.Row[Any]]:
    """Id, `org_id` and `certificate_expires_at` of the enabled connections with a certificate that expires before the
    given time.
    """
    found: sa.Select[Any] = sa.select(
        sso_connections.c.id, sso_connections.c.org_id, sso_connections.c.certificate_expires_at
    ).where(sso_connections.c.enabled, sso_connections.c.certificate_expires_at < to_milliseconds(before))
    rows: Sequence[sa.Row[Any]] = (await connection.execute(found)).all()
    return rows


async def _delete_links(connection: AsyncConnection, connection_id: str) -> None:
    for table in (sso_handoff_codes, sso_logins, sso_assertions, sso_identities):  # in the order of foreign keys
        await connection.execute(table.delete().where(table.c.connection_id == connection_id))


def _provider(connection: StoredConnection) -> tuple[str | None, ...]:
    return connection.idp_entity_id, connection.oidc_issuer, connection.oidc_client_id


def _connection(row: sa.RowMapping) -> StoredConnection:
    values = {name: row[name] for name in _COLUMNS}
    return StoredConnection(
        **{**values, "protocol": Protocol(row["protocol"]), "default_role": Role(row["default_role"])}
    )
