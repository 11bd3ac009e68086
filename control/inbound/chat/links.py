"""`/orgs/{orgSlug}/chat-links`: codes that link a chat user with the caller, and the links."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta

from chassis.auth.grants import load_session_credential
from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict, Forbidden, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, route
from control.http.field_types import Timestamp
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatPlatform, StoredChatLink, chat_links
from control.inbound.chat.actor import record_removal
from control.inbound.chat.api import TAG
from control.routing.arguments import Handlers, Transaction, begin
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import Scope

SESSION_ONLY: Final = "To link a chat user, use the token of a session (POST /auth/login), not a personal access token."
NO_CHATS: Final = "No chat platform is configured."


class ChatLinkCode(msgspec.Struct, frozen=True, rename="camel"):
    """A code that links one chat user, once."""

    code: Annotated[str, Meta(description="Shown once. The first chat user who sends this code acts as you.")]
    expires_at: Annotated[Timestamp, Meta(description="When the code expires. The code also expires with the session.")]
    command: Annotated[str, Meta(description="The command to send in the chat.")]


class ChatLink(msgspec.Struct, frozen=True, rename="camel"):
    """A chat user that acts as a principal."""

    id: str
    principal_id: str
    platform: ChatPlatform
    team_id: Annotated[
        str | None,
        Meta(description="The id of the workspace. `null` on platforms where a user is not bound to a workspace."),
    ]
    user_id: str
    created_at: Timestamp
    last_used_at: Annotated[Timestamp | None, Meta(description="When the chat user last changed something.")]


PATH: Final = "/orgs/{orgSlug}/chat-links"
_MEMBER: Final = bearer(Scope.PROJECTS_READ)  # every role has it; the handlers check to whom the links belong


def _shown(link: Any, _caller: AuthorizationContext) -> ChatLink:
    return shown_as(ChatLink, link, team_id=link.team_id or None)


LINKS: Final = Resource(
    "chatLinkId",
    ids("chl"),
    Scope.MEMBERS_READ,
    chat_links.c.id,
    in_organization(chat_links),
    sa.select(chat_links),
    _shown,
)


@dataclass(frozen=True, slots=True)
class ChatLinks(Handlers):
    """Handlers of chat links. `platforms`: the configured platforms."""

    TAG: ClassVar = TAG
    platforms: tuple[str, ...]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, _MEMBER)
    async def list_chat_links(self, caller: AuthorizationContext, page: PageReader) -> PageOf[ChatLink]:
        """List your chat links, newest first. With the scope to read members, list the chat links of all members."""
        own = chat_links.c.principal_id == caller.principal_id
        return await page.of(LINKS, caller, *([] if Scope.MEMBERS_READ in caller.scopes else [own]))

    @route("POST", PATH, _MEMBER, status=201, errors=(409,))
    async def create_chat_link_code(self, request: web.Request) -> ChatLinkCode:
        """Create a code that links a chat user with the caller.

        The code works once, for ten minutes, while the session lasts. An earlier code of the same user stops working.
        403 for an access token: only a user in a session may link a chat user. 409 if no chat platform is configured.
        """
        if not self.platforms:
            raise Conflict(NO_CHATS)
        async with begin(self.context, request) as transaction:
            caller = transaction.caller
            session = await load_session_credential(transaction.connection, caller.token_id)
            if session is None:
                raise Forbidden(SESSION_ONLY)
            code, expires_at = await link_repository.create_code(transaction.connection, session, self.now())
            await transaction.record("chat_link.code", caller.principal_id, {"expiresAt": format_time(expires_at)})
        return ChatLinkCode(code, format_time(expires_at), f"/sluice link {code}")

    @route("DELETE", PATH + "/{chatLinkId}", _MEMBER)
    async def delete_chat_link(self, chat_link_id: str, transaction: Transaction) -> None:
        """Delete one of your chat links. With the scope to manage members, delete a chat link of any member."""
        connection, caller = transaction.connection, transaction.caller
        link = await link_repository.find(connection, caller.org_id, chat_link_id)
        if link is None or not _may_see(caller, link):
            raise NotFound
        if link.principal_id != caller.principal_id and Scope.MEMBERS_WRITE not in caller.scopes:
            raise Forbidden("Deleting the chat link of another member requires the scope members:write.")
        await link_repository.delete(connection, link.id)
        await record_removal(connection, caller, link, transaction.request_id)


def _may_see(caller: AuthorizationContext, link: StoredChatLink) -> bool:
    return link.principal_id == caller.principal_id or not caller.scopes.isdisjoint(
        {Scope.MEMBERS_READ, Scope.MEMBERS_WRITE}
    )
