"""`/orgs/{orgSlug}/chat-links`: codes that link a chat user with the caller, and the links."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.grants import load_session_credential
from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict, Forbidden, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext, path_id
from control.http.field_types import Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity.chat_links import repository as link_repository
from control.identity.chat_links.model import StoredChatLink
from control.identity.chat_links.tables import ChatPlatform
from control.inbound.chat.actor import record_removal
from control.inbound.chat.chat_a import TAG
from proto.identity import Scope

SESSION_ONLY: Final = "A chat user is linked in a session (POST /auth/login), not with an access token."
NO_CHATS: Final = "No chat platform is configured."


class ChatLinkCode(msgspec.Struct, frozen=True, rename="camel"):
    """A code that links one chat user, once."""

    code: Annotated[str, Meta(description="Shown once. Whoever sends it first acts as you from that chat user.")]
    expires_at: Annotated[Timestamp, Meta(description="It also ends with the session.")]
    command: Annotated[str, Meta(description="What to send in the chat.")]


class ChatLink(msgspec.Struct, frozen=True, rename="camel"):
    """A chat user that acts as a principal."""

    id: str
    principal_id: str
    platform: ChatPlatform
    team_id: Annotated[str | None, Meta(description="The workspace. Null where users are global.")]
    user_id: str
    created_at: Timestamp
    last_used_at: Annotated[Timestamp | None, Meta(description="When it last changed something.")]


class ChatLinkPage(msgspec.Struct, frozen=True, rename="camel"):
    """Chat links, newest first."""

    data: list[ChatLink]
    next_cursor: NextCursor
    has_more: bool


LIST: Final = Operation("listChatLinks", TAG, (ResponseSpec("A page.", json_content(ChatLinkPage)),), PAGE_PARAMETERS)
CREATE: Final = Operation(
    "createChatLinkCode",
    TAG,
    (ResponseSpec("The code.", json_content(ChatLinkCode), 201),),
    error_statuses=(409,),
)
DELETE: Final = Operation(
    "deleteChatLink",
    TAG,
    (ResponseSpec("The link was deleted.", status=204),),
    (Parameter("chatLinkId", "path", Annotated[str, Meta(min_length=1)], "The link."),),
)


@dataclass(frozen=True, slots=True)
class ChatLinks:
    """Handlers of chat links. `platforms`: those that are configured."""

    context: HandlerContext
    platforms: tuple[str, ...]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource. Every role has the scope; the handlers check whose links they are."""
        every = "/orgs/{orgSlug}/chat-links"
        member = bearer(Scope.PROJECTS_READ)
        return [
            Route("GET", every, self.list, member, operation=LIST),
            Route("POST", every, self.create, member, operation=CREATE),
            Route("DELETE", every + "/{chatLinkId}", self.delete, member, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List one's own chat links, newest first; with the scope to read members those of everybody."""
        caller = authorization_context(request)
        binding = repr(("chat-links", caller.org_id, caller.principal_id)).encode()
        page = parse_page_request(request, self.context.cursors, binding)
        whose = None if Scope.MEMBERS_READ in caller.scopes else caller.principal_id
        async with self.context.database.read() as connection:
            found = await link_repository.list_links(connection, caller.org_id, whose, page.after, page.limit + 1)
        return json_response(page_body(found, page, _link_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a code that links a chat user with the caller.

        It works once, for ten minutes, while the session lasts; an earlier code of the same user stops working. 403
        for an access token: only a user in a session may. 409 if no chat platform is configured.
        """
        if not self.platforms:
            raise Conflict(NO_CHATS)
        async with self.context.write_transaction(request) as (connection, caller):
            session = await load_session_credential(connection, caller.token_id)
            if session is None:
                raise Forbidden(SESSION_ONLY)
            code, expires_at = await link_repository.create_code(connection, session, self.now())
            data = {"expiresAt": format_time(expires_at)}
            await record(connection, caller, "chat_link.code", caller.principal_id, data, request_id(request))
        body = ChatLinkCode(code, format_time(expires_at), f"/sluice link {code}")
        return json_response(body, status=201)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a chat link: one's own, or with the scope to manage members anybody's."""
        link_id = path_id(request, "chatLinkId")
        async with self.context.write_transaction(request) as (connection, caller):
            link = await link_repository.find(connection, caller.org_id, link_id)
            if link is None or not _may_see(caller, link):
                raise NotFound
            if link.principal_id != caller.principal_id and Scope.MEMBERS_WRITE not in caller.scopes:
                raise Forbidden("Deleting the chat link of somebody else requires the scope members:write.")
            await link_repository.delete(connection, link.id)
            await record_removal(connection, caller, link, request_id(request))
        return web.Response(status=204)


def _may_see(caller: AuthorizationContext, link: StoredChatLink) -> bool:
    is_own = link.principal_id == caller.principal_id
    return is_own or not caller.scopes.isdisjoint({Scope.MEMBERS_READ, Scope.MEMBERS_WRITE})


def _link_body(link: StoredChatLink) -> ChatLink:
    return ChatLink(
        link.id,
        link.principal_id,
        link.user.platform,
        link.user.team_id or None,
        link.user.user_id,
        format_time(link.created_at),
        None if link.last_used_at is None else format_time(link.last_used_at),
    )
