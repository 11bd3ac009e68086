"""Lets chat users act with commands and buttons. Each act is one transaction, together with its changes.

find_answer     a repetition gets the first answer and changes nothing
find_access     finds the principal that the chat user is linked with, and its current rights
commands        performs the act, under the rules of the API; a refused act changes nothing
update_queue    replaces the message with the button and informs the person, after the answer
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.db.database import Database
from chassis.errors import Conflict, Forbidden, NotFound, RateLimited
from chassis.http.web import RATE_LIMITS, request_id
from chassis.limits.limiter import LimitClass
from control.approvals import store
from control.approvals.model import RequestRecord, Status
from control.approvals.notifications import LinkBuilder, involved_principals, resolved_message
from control.approvals.tables import approval_requests
from control.audit.record import Actor, record
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatUser, StoredChatLink
from control.inbound.chat import commands, update_queue
from control.inbound.chat.commands import AccessLost, Caller, Command, find_access, load_access
from control.inbound.chat.payloads import CommandCall, Press
from control.inbound.chat.replies import Markup, Reply
from control.inbound.chat.update_queue import ChatUpdater, NewUpdate
from control.inbound.webhooks.platform_events import AppliedEvent, EventResult, EventSource, find_answer, store_answer
from control.notify.message import Message
from control.secrets.secret_box import SecretBox
from proto.identity import PrincipalKind

LINK_FIRST: Final = "Your chat user is not linked with Sluice. Create a code in Sluice (Chat links), and send it here:"
WRONG_CODE: Final = "The code is wrong, expired or used. Create a new code in Sluice."
TOO_MANY_CODES: Final = "Too many wrong codes. Try again in some minutes."
NO_CODE: Final = "Send the code that Sluice shows you: link CODE."
UNLINKED: Final = "Your chat user is no longer linked with Sluice."
NOT_LINKED: Final = "Your chat user is not linked with Sluice."
TOO_MANY_LINKS: Final = (
    f"You have {link_repository.MAX_LINKS} linked chat users, the maximum. Remove one in Sluice (Chat links)."
)
_READS: Final = {"errors": commands.errors, "status": commands.status}
_ACTS: Final = frozenset({"approve", "reject", "resolve", "link", "unlink"})


@dataclass(frozen=True, slots=True)
class PressResult:
    """The result of a press. `final`: the message to show from now on, if the request is decided or has expired."""

    reply: Reply
    final: Message | None = None


@dataclass(frozen=True, slots=True)
class Surface:
    """How a platform shows replies. `updates`: the messages that follow the answer to a press, sent to its
    `update_url`.
    """

    source: EventSource
    markup: Markup
    reply: Callable[[Reply], dict[str, Any]]
    press_answer: Callable[[PressResult], dict[str, Any]]
    updates: Callable[[PressResult, str], Sequence[NewUpdate]]


@dataclass(frozen=True, slots=True)
class ChatActor:
    """Executes commands and presses of verified requests."""

    database: Database
    secret_box: SecretBox
    link_builder: LinkBuilder
    updater: ChatUpdater
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def command(self, request: web.Request, call: CommandCall, surface: Surface) -> AppliedEvent:
        """Execute a command and return the answer. Raises RateLimited, ServiceUnavailable."""
        await _take(request, call.user)
        name = call.command.name
        if name in _READS:
            async with self.database.read() as connection:
                reply, _ = await self._act(connection, request, call, surface.markup, self.now())
            return AppliedEvent(surface.reply(reply), duplicate=False)
        if name not in _ACTS:
            return AppliedEvent(surface.reply(commands.help_reply(surface.markup)), duplicate=False)
        if name == "link":
            refused = await self._refuse_code(request, call, surface.source)
            if refused is not None:
                return AppliedEvent(surface.reply(Reply((surface.markup.text(refused),))), duplicate=False)
        async with self.database.write() as connection:
            now = self.now()
            known = await find_answer(connection, surface.source, call.event_id)
            if known is not None:
                return AppliedEvent(known, duplicate=True)
            reply, org_id = await self._act(connection, request, call, surface.markup, now)
            return await store_answer(
                connection, surface.source, call.event_id, now, EventResult(surface.reply(reply), org_id)
            )

    async def press(self, request: web.Request, press: Press, surface: Surface) -> AppliedEvent:
        """Execute a press of an Approve button and return the answer. Raises RateLimited, ServiceUnavailable."""
        await _take(request, press.user)
        async with self.database.write() as connection:
            now = self.now()
            known = await find_answer(connection, surface.source, press.event_id)
            if known is not None:
                return AppliedEvent(known, duplicate=True)
            result, org_id = await self._approve(connection, request, press, surface.markup, now)
            if org_id is not None and press.update_url is not None:
                updates = surface.updates(result, press.update_url)
                await update_queue.enqueue(connection, self.secret_box, org_id, updates, now)
            applied = await store_answer(
                connection, surface.source, press.event_id, now, EventResult(surface.press_answer(result), org_id)
            )
        self.updater.wake()
        return applied

    async def _act(
        self, connection: AsyncConnection, request: web.Request, call: CommandCall, markup: Markup, now: datetime
    ) -> tuple[Reply, str | None]:
        """The reply to the command, or the reason why the chat user may not give it, and the id of the organization of
        the chat user.
        """
        command, user = call.command, call.user
        if command.name == "link":
            return await self._link(connection, user, command, markup, request_id(request), now)
        if command.name == "unlink":
            return await _unlink(connection, user, markup, request_id(request))
        linked = await self._find_linked(connection, request, user, markup, now)
        if isinstance(linked, Reply):
            return linked, None
        link, caller = linked
        try:
            if command.name in _READS:
                return await _READS[command.name](connection, caller, command), link.org_id
            async with connection.begin_nested():  # a refused command changes nothing
                reply = await _apply_command(connection, caller, command)
                await link_repository.set_used(connection, link, now)
        except (Conflict, Forbidden, NotFound) as error:
            reply = Reply((markup.text(error.message),))
        return reply, link.org_id

    async def _approve(
        self, connection: AsyncConnection, request: web.Request, press: Press, markup: Markup, now: datetime
    ) -> tuple[PressResult, str | None]:
        linked = await self._find_linked(connection, request, press.user, markup, now)
        if isinstance(linked, Reply):  # a user without a link is answered on behalf of the request's organization
            return PressResult(linked), await _org_of_request(connection, press.request_id)
        link, caller = linked
        try:
            async with connection.begin_nested():
                outcome = await commands.approve(connection, caller, press.request_id)
                await link_repository.set_used(connection, link, now)
            reply = commands.vote_reply(caller, outcome)
        except (Forbidden, NotFound) as error:
            return PressResult(Reply((markup.text(error.message),))), link.org_id
        except Conflict as error:
            reply = Reply((markup.text(error.message),))
        return PressResult(reply, await _final_message(connection, caller, press.request_id)), link.org_id

    async def _find_linked(
        self, connection: AsyncConnection, request: web.Request, user: ChatUser, markup: Markup, now: datetime
    ) -> tuple[StoredChatLink, Caller] | Reply:
        """The link of a chat user with its access rights, or a reply with the reason why the chat user may do
        nothing.
        """
        try:
            found = await find_access(connection, user)
        except AccessLost as error:
            return Reply((markup.text(str(error)),))
        if found is None:
            return Reply((markup.text(LINK_FIRST), markup.code("/sluice link CODE")))
        link, access = found
        return link, Caller(access, self.link_builder.for_org(access.org_slug), markup, request_id(request), now)

    async def _refuse_code(self, request: web.Request, call: CommandCall, source: EventSource) -> str | None:
        """Return the reason to refuse a code before it is tried, None to try it. Wrong codes of a chat user are
        counted. Raises ServiceUnavailable.
        """
        limits, whose = request.app[RATE_LIMITS], f"chat-link:{_holder(call.user)}"
        try:
            await limits.check_account(request, LimitClass.FAILED_CODE, whose)
            async with self.database.read() as connection:
                if await link_repository.has_code(connection, call.command.argument):
                    return None
                if await find_answer(connection, source, call.event_id) is not None:
                    return None
            await limits.record_account_failure(request, LimitClass.FAILED_CODE, whose)
        except RateLimited:
            return TOO_MANY_CODES
        return WRONG_CODE if call.command.argument else NO_CODE

    async def _link(
        self,
        connection: AsyncConnection,
        user: ChatUser,
        command: Command,
        markup: Markup,
        trace_id: str,
        now: datetime,
    ) -> tuple[Reply, str | None]:
        session = await link_repository.spend_code(connection, command.argument, now)
        if session is None:
            return Reply((markup.text(WRONG_CODE),)), None
        link = link_repository.new_link(session, user, now)
        try:
            await load_access(connection, link, session.org_slug)
        except AccessLost as error:
            return Reply((markup.text(str(error)),)), session.org_id
        earlier = await link_repository.find_of_user(connection, user)
        replaces_own = earlier is not None and earlier[0].principal_id == link.principal_id
        links = await link_repository.count(connection, link.org_id, link.principal_id)
        if links >= link_repository.MAX_LINKS and not replaces_own:
            return Reply((markup.text(TOO_MANY_LINKS),)), session.org_id
        await link_repository.delete_of_user(connection, user)
        if earlier is not None:
            await record_removal(connection, _actor_of(earlier[0]), earlier[0], trace_id)
        await link_repository.add(connection, link)
        await record(connection, _session_actor(session), "chat_link.create", link.id, _audit_data(link), trace_id)
        text = f"You act as {await _name(connection, link)} of {session.org_slug} here."
        return Reply((markup.text(text), markup.code("/sluice help"))), session.org_id


async def record_removal(
    connection: AsyncConnection, by: AuthorizationContext | Actor, link: StoredChatLink, trace_id: str
) -> None:
    """The audit event of a removed link."""
    await record(connection, by, "chat_link.delete", link.id, _audit_data(link), trace_id)


async def _apply_command(connection: AsyncConnection, caller: Caller, command: Command) -> Reply:
    if command.name == "resolve":
        return await commands.resolve(connection, caller, command)
    if command.name == "approve":
        return commands.vote_reply(caller, await commands.approve(connection, caller, command.argument))
    return commands.vote_reply(caller, await commands.reject(connection, caller, command))


async def _unlink(
    connection: AsyncConnection, user: ChatUser, markup: Markup, trace_id: str
) -> tuple[Reply, str | None]:
    """Remove the link, even if it does not permit anything any more."""
    found = await link_repository.find_of_user(connection, user)
    if found is None:
        return Reply((markup.text(NOT_LINKED),)), None
    link, _ = found
    await link_repository.delete(connection, link.id)
    await record_removal(connection, _actor_of(link), link, trace_id)
    return Reply((markup.text(UNLINKED),)), link.org_id


async def _final_message(connection: AsyncConnection, caller: Caller, text: str) -> Message | None:
    """The message of a request that is decided or expired. None before that."""
    request: RequestRecord = await commands.find_request(connection, caller, text)
    if request.status_at(caller.now) is Status.PENDING:
        return None
    names = await store.principal_names(connection, involved_principals(request))
    return resolved_message(request, caller.links, names, caller.now)


async def _org_of_request(connection: AsyncConnection, text: str) -> str | None:
    org_id: str | None = None
    if commands.is_request_id(text):
        org_id = await connection.scalar(sa.select(approval_requests.c.org_id).where(approval_requests.c.id == text))
    return org_id


async def _take(request: web.Request, user: ChatUser) -> None:
    """Apply the rate limit of a principal to the chat user, so that one chat user does not use up the platform's
    limit.
    """
    await request.app[RATE_LIMITS].take_secondary(request, LimitClass.API, _holder(user))


def _holder(user: ChatUser) -> str:
    return ":".join(user)


async def _name(connection: AsyncConnection, link: StoredChatLink) -> str:
    names: Mapping[str, str] = await store.principal_names(connection, [link.principal_id])
    return names[link.principal_id]


def _session_actor(session: AuthenticatedCredential) -> Actor:
    return Actor(session.org_id, session.principal_id, PrincipalKind.USER, token_id=session.token_id)


def _actor_of(link: StoredChatLink) -> Actor:
    return Actor(link.org_id, link.principal_id, PrincipalKind.USER, token_id=link.id)


def _audit_data(link: StoredChatLink) -> dict[str, object]:
    data: dict[str, object] = {"platform": link.user.platform.value, "userId": link.user.user_id}
    return data | ({"teamId": link.user.team_id} if link.user.team_id else {}) | {"principalId": link.principal_id}
