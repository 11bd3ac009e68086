"""Links between chat users and the principals that they act as, and the codes that make links. A link and its codes end
with the membership. `control.inbound.chat` uses this module. Every function runs in the caller's transaction.

A code is 140 random bits, of which the SHA-256 is stored. A code works once, for CODE_LIFETIME, and only while the
session that made the code is valid. After the session has ended, or its user has left, the code makes no link.
"""

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import load_session_credential
from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import metadata, new_id, organizations
from chassis.db.database import UtcTime, enum_check, text, to_milliseconds
from proto.identity import PrincipalKind, hash_secret

MAX_PLATFORM_ID_LENGTH: Final = 64


class ChatPlatform(StrEnum):
    """A chat platform, by the neutral names of the specification."""

    CHAT_A = "chat-a"
    CHAT_B = "chat-b"


chat_links: Final = sa.Table(
    "chat_links",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("platform", text(16), nullable=False),
    sa.Column("team_id", text(MAX_PLATFORM_ID_LENGTH), nullable=False),  # the workspace; empty where users are global
    sa.Column("user_id", text(MAX_PLATFORM_ID_LENGTH), nullable=False),
    # Whether an identity provider had confirmed the user of the session that made the code.
    sa.Column("is_federated", sa.Boolean, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("last_used_at", UtcTime),
    enum_check("platform", ChatPlatform),
    sa.UniqueConstraint("platform", "team_id", "user_id"),
    sa.Index(None, "org_id", "principal_id"),
    sa.Index(None, "principal_id"),
)

chat_link_codes: Final = sa.Table(
    "chat_link_codes",
    metadata,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("session_id", text(32), nullable=False),  # the code ends with the session
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Index(None, "org_id"),
    sa.Index(None, "principal_id"),
    sa.Index(None, "expires_at"),
)


class ChatUser(NamedTuple):
    """A user who writes in a chat. `team_id` is empty where the platform's users are global."""

    platform: ChatPlatform
    team_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class StoredChatLink:
    """A row of `chat_links`. `is_federated`: the session of the code was a login through an identity provider."""

    id: str
    org_id: str
    principal_id: str
    user: ChatUser
    is_federated: bool
    created_at: datetime
    last_used_at: datetime | None


CODE_LIFETIME: Final = timedelta(minutes=10)
CODE_LENGTH: Final = 28  # characters of 5 bits
MAX_LINKS: Final = 20  # per principal in an organization
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: without letters that look like digits
_LOOKALIKES: Final = str.maketrans("OIL", "011", "- ")
_GROUP: Final = 4
_CODE: Final = re.compile(f"[{_ALPHABET}]{{{CODE_LENGTH}}}")


def new_code() -> str:
    """A code as users type it: `7K2M-...`."""
    text = "".join(secrets.choice(_ALPHABET) for _ in range(CODE_LENGTH))
    return "-".join(text[start : start + _GROUP] for start in range(0, CODE_LENGTH, _GROUP))


def normalize_code(text: str) -> str | None:
    """The code in a text, in any spelling of case and separators. None if the text has no code."""
    code = text.upper().translate(_LOOKALIKES)
    return code if _CODE.fullmatch(code) is not None else None


async def create_code(
    connection: AsyncConnection, session: AuthenticatedCredential, now: datetime
) -> tuple[str, datetime]:
    """Create a code for the session. Returns the code and its expiry. Earlier codes of the same user stop working."""
    code, now = new_code(), to_milliseconds(now)
    columns, expires_at = chat_link_codes.c, now + CODE_LIFETIME
    of_user = (columns.org_id == session.org_id) & (columns.principal_id == session.principal_id)
    await connection.execute(chat_link_codes.delete().where(of_user))
    row = {
        "hash": _hash(code),
        "org_id": session.org_id,
        "principal_id": session.principal_id,
        "session_id": session.token_id,
        "created_at": now,
        "expires_at": expires_at,
    }
    await connection.execute(chat_link_codes.insert().values(row))
    return code, expires_at


async def spend_code(connection: AsyncConnection, text: str, now: datetime) -> AuthenticatedCredential | None:
    """Spend the code and return the session that made it. None if the code or the session is not valid."""
    if normalize_code(text) is None:
        return None
    where = chat_link_codes.c.hash == _hash(text)
    row = (await connection.execute(sa.select(chat_link_codes).where(where))).one_or_none()
    if row is None:
        return None
    await connection.execute(chat_link_codes.delete().where(where))
    session = await load_session_credential(connection, row.session_id)
    if session is None or row.expires_at <= now or session.expires_at is None or session.expires_at <= now:
        return None
    if session.mfa_pending or session.role is None or session.kind is not PrincipalKind.USER:
        return None
    return session


async def has_code(connection: AsyncConnection, text: str) -> bool:
    """Whether there is such a code, valid or not. With this check, a wrong code is refused without a write."""
    statement = sa.select(chat_link_codes.c.hash).where(chat_link_codes.c.hash == _hash(text))
    return normalize_code(text) is not None and await connection.scalar(statement) is not None


def new_link(session: AuthenticatedCredential, user: ChatUser, now: datetime) -> StoredChatLink:
    """The link that a spent code makes. It is not stored yet."""
    created_at = to_milliseconds(now)
    return StoredChatLink(
        new_id("chl"), session.org_id, session.principal_id, user, session.is_federated, created_at, None
    )


async def add(connection: AsyncConnection, link: StoredChatLink) -> None:
    """Store a link of a chat user who has no link."""
    row = {
        "id": link.id,
        "org_id": link.org_id,
        "principal_id": link.principal_id,
        "platform": link.user.platform.value,
        "team_id": link.user.team_id,
        "user_id": link.user.user_id,
        "is_federated": link.is_federated,
        "created_at": link.created_at,
    }
    await connection.execute(chat_links.insert().values(row))


async def find_of_user(connection: AsyncConnection, user: ChatUser) -> tuple[StoredChatLink, str] | None:
    """The link of the chat user and the slug of its organization. None also if the organization is deleted."""
    columns = chat_links.c
    statement = (
        sa.select(chat_links, organizations.c.slug)
        .join(organizations, organizations.c.id == columns.org_id)
        .where(_of(user), organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else (_link(row), row["slug"])


async def find(connection: AsyncConnection, org_id: str, link_id: str) -> StoredChatLink | None:
    """The organization's link with this id."""
    statement = sa.select(chat_links).where(chat_links.c.org_id == org_id, chat_links.c.id == link_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _link(row)


async def count(connection: AsyncConnection, org_id: str, principal_id: str) -> int:
    """The number of links that the principal has in the organization."""
    where = (chat_links.c.org_id == org_id) & (chat_links.c.principal_id == principal_id)
    return await connection.scalar(sa.select(sa.func.count()).select_from(chat_links).where(where)) or 0


async def set_used(connection: AsyncConnection, link: StoredChatLink, now: datetime) -> None:
    """Store that the chat user has acted."""
    where = chat_links.c.id == link.id
    await connection.execute(chat_links.update().where(where).values(last_used_at=to_milliseconds(now)))


async def delete(connection: AsyncConnection, link_id: str) -> None:
    """Delete one link."""
    await connection.execute(chat_links.delete().where(chat_links.c.id == link_id))


async def delete_of_user(connection: AsyncConnection, user: ChatUser) -> None:
    """Delete the link of a chat user, even if its organization is deleted."""
    await connection.execute(chat_links.delete().where(_of(user)))


async def end_access(
    connection: AsyncConnection, org_id: str, principal_ids: sa.Select[tuple[str]] | Collection[str] | None = None
) -> None:
    """Delete the links and codes of principals that leave the organization (None: of all principals)."""
    for table in (chat_links, chat_link_codes):
        where = table.c.org_id == org_id
        if principal_ids is not None:
            where &= table.c.principal_id.in_(principal_ids)
        await connection.execute(table.delete().where(where))


async def delete_expired_codes(connection: AsyncConnection, now: datetime) -> None:
    """Delete codes that are no longer valid. There are few, because a user has one at most."""
    await connection.execute(chat_link_codes.delete().where(chat_link_codes.c.expires_at <= now))


def _hash(text: str) -> bytes:
    return hash_secret(normalize_code(text) or "")


def _of(user: ChatUser) -> sa.ColumnElement[bool]:
    columns = chat_links.c
    return (
        (columns.platform == user.platform.value)
        & (columns.team_id == user.team_id)
        & (columns.user_id == user.user_id)
    )


def _link(row: sa.RowMapping | dict[str, Any]) -> StoredChatLink:
    user = ChatUser(ChatPlatform(row["platform"]), row["team_id"], row["user_id"])
    return StoredChatLink(
        row["id"],
        row["org_id"],
        row["principal_id"],
        user,
        bool(row["is_federated"]),
        row["created_at"],
        row["last_used_at"],
    )
