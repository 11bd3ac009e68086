"""The commands `/sluice ...`: what chat users can ask and do, the same on every platform, and with which rights.

A chat user may do what its principal may do at this moment. Every function runs in the caller's transaction, so rights
are loaded in the transaction of the change.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import any_disabled, common_scopes, load_membership_statuses
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import projects
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, Forbidden, NotFound
from chassis.http.validation import Issues
from chassis.issues import IssueStatus, issues, short_id
from control.approvals import store, voting
from control.approvals.bodies import REQUEST_ID_PATTERN, check_prose
from control.approvals.model import RequestRecord, Status, Verdict
from control.approvals.notifications import RequestLinks
from control.approvals.tables import MAX_REASON_LENGTH
from control.approvals.voting import Ballot, CastVote
from control.audit.record import record
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatUser, StoredChatLink
from control.identity.users import session_store
from control.inbound.chat.replies import Markup, Reply
from control.issues import lifecycle
from control.issues.lifecycle import Resolution
from control.issues.references import parse_short_id
from control.issues.tables import IssueRecord
from proto.identity import SLUG_PATTERN, PrincipalKind, Scope

LEFT: Final = "You are no longer a member of the organization that your chat user is linked with."
SSO_REQUIRED: Final = (
    "The organization requires single sign-on. Log in through the identity provider and link your chat user again."
)


class AccessLost(Exception):
    """The link does not work any more, or not now. The message is for the chat user."""


async def find_access(
    connection: AsyncConnection, user: ChatUser
) -> tuple[StoredChatLink, AuthorizationContext] | None:
    """Find the link of the chat user and its access rights. Returns None if the user is not linked. Raises
    AccessLost.
    """
    found = await link_repository.find_of_user(connection, user)
    if found is None:
        return None
    link, org_slug = found
    return link, await load_access(connection, link, org_slug)


async def load_access(connection: AsyncConnection, link: StoredChatLink, org_slug: str) -> AuthorizationContext:
    """Load the current rights of the link's principal. `token_id` is the id of the link. If the organization enforces
    single sign-on, it accepts the same links as sessions: those created in a session that the identity provider
    authenticated, and the links of the break-glass owner. Raises AccessLost.
    """
    found = await load_membership_statuses(connection, link.org_id, [link.principal_id])
    scopes, status = common_scopes(found, None), found[link.principal_id]
    if scopes is None or status.role is None or any_disabled(found) or status.kind is not PrincipalKind.USER:
        raise AccessLost(LEFT)
    if not await _permits(connection, link):
        raise AccessLost(SSO_REQUIRED)
    return AuthorizationContext(link.principal_id, link.id, link.org_id, org_slug, status.role, scopes)


def require_scope(access: AuthorizationContext, *wanted: Scope) -> None:
    """Require one of the scopes. Raises Forbidden."""
    if access.scopes.isdisjoint(wanted):
        raise Forbidden(f"Your role in {access.org_slug} lacks {' or '.join(sorted(wanted))}.")


async def _permits(connection: AsyncConnection, link: StoredChatLink) -> bool:
    """Whether the link may act although its organization requires single sign-on. The rules are the same as for a
    session.
    """
    if link.is_federated or not await session_store.requires_sso(connection, link.org_id):
        return True
    return await session_store.find_break_glass(connection, link.org_id) == link.principal_id


MAX_LISTED: Final = 10
MAX_PROJECTS: Final = 50  # projects of an organization in which errors are searched
_REQUEST_ID: Final = re.compile(REQUEST_ID_PATTERN[1:-1])
_SLUG: Final = re.compile(SLUG_PATTERN)
_PRINTABLE_SPACE: Final = re.compile(r"\s+")
NO_REQUEST: Final = "There is no such request. A request id looks like apr_01...; `status` lists the open requests."
NO_PROJECT: Final = "There is no such project."
NO_ISSUE: Final = "There is no such issue. The name of an issue looks like CHECKOUT-12."
NO_REASON: Final = f"Give a reason of at most {MAX_REASON_LENGTH} characters: reject ID REASON."
HELP: Final = (
    ("errors [PROJECT]", "list unresolved errors, the most recently seen first"),
    ("status [REQUEST_ID]", "list open approval requests, or show one request"),
    ("approve REQUEST_ID", "approve a request"),
    ("reject REQUEST_ID REASON", "reject a request, or withdraw your own"),
    ("resolve SHORT_ID", "resolve an issue, such as CHECKOUT-12"),
    ("link CODE", "link your chat user with your account, using a code from Sluice"),
    ("unlink", "remove this link"),
)


class Command(NamedTuple):
    """A command: its name, and the words after its name."""

    name: str
    argument: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """A linked chat user who gives a command: its access rights, links to pages of its organization, and the markup of
    its platform. `trace_id`: id of the HTTP request, for the audit log.
    """

    access: AuthorizationContext
    links: RequestLinks
    markup: Markup
    trace_id: str
    now: datetime


def parse_command(text: str) -> Command:
    """Parse the command in a text. An empty text is the command `help`."""
    words = _PRINTABLE_SPACE.split(text.strip(), maxsplit=2)
    return Command(words[0].lower() or "help", *words[1:])


def help_reply(markup: Markup) -> Reply:
    """The list of commands."""
    lines = (f"{markup.code(f'/sluice {usage}')} {markup.text(meaning)}" for usage, meaning in HELP)
    return Reply((markup.bold("Commands of Sluice"), *lines))


async def errors(connection: AsyncConnection, caller: Caller, command: Command) -> Reply:
    """List unresolved issues. Raises Forbidden, NotFound."""
    require_scope(caller.access, Scope.ISSUES_READ)
    slugs = await _project_slugs(connection, caller.access.org_id, command.argument.lower())
    found = await _unresolved(connection, list(slugs), caller.now) if slugs else []
    if not found:
        return Reply((caller.markup.text("No unresolved errors."),))
    return Reply(tuple(_issue_line(caller, slugs[issue.project_id], issue) for issue in found))


async def status(connection: AsyncConnection, caller: Caller, command: Command) -> Reply:
    """List open approval requests, or show one. Raises Forbidden, NotFound."""
    require_scope(caller.access, Scope.APPROVALS_READ)
    if command.argument:
        return await _one_request(connection, caller, await find_request(connection, caller, command.argument))
    found = await store.list_requests(connection, caller.access.org_id, Status.PENDING, caller.now, MAX_LISTED)
    if not found:
        return Reply((caller.markup.text("No open approval requests."),))
    return Reply(tuple(_request_line(caller, one) for one in found))


async def approve(connection: AsyncConnection, caller: Caller, request_id: str) -> CastVote:
    """Cast an approval under the rules of the API. Raises the errors of `voting.approve`."""
    require_scope(caller.access, Scope.APPROVALS_DECIDE)
    return await _vote(connection, caller, Verdict.APPROVE, request_id, None)


async def reject(connection: AsyncConnection, caller: Caller, command: Command) -> CastVote:
    """Cast a rejection under the rules of the API. Raises the errors of `voting.reject`, and Conflict without a
    reason.
    """
    require_scope(caller.access, Scope.APPROVALS_DECIDE, Scope.APPROVALS_WRITE)
    faults = Issues()
    reason = check_prose("reason", command.rest, faults)
    if faults or not reason or len(reason) > MAX_REASON_LENGTH:
        raise Conflict(NO_REASON)
    return await _vote(connection, caller, Verdict.REJECT, command.argument, reason)


async def resolve(connection: AsyncConnection, caller: Caller, command: Command) -> Reply:
    """Resolve an issue from now on. A resolved issue is not changed. Raises Forbidden, NotFound."""
    require_scope(caller.access, Scope.ISSUES_WRITE)
    name = parse_short_id(command.argument)
    slugs = {} if name is None else await _project_slugs(connection, caller.access.org_id, name.project_slug)
    issue = None if name is None else await _find_issue(connection, list(slugs), name.number)
    if issue is None:
        raise _Missing(NO_ISSUE)
    if issue.status is not IssueStatus.RESOLVED:
        now, by = to_milliseconds(caller.now), caller.access
        changed = await lifecycle.set_resolved(connection, issue, Resolution(), now=now, by=by.principal_id)
        await record(connection, by, "issue.change", issue.id, {"status": changed.status.value}, caller.trace_id)
    return Reply((f"Resolved: {_issue_line(caller, slugs[issue.project_id], issue)}",))


def vote_reply(caller: Caller, outcome: CastVote) -> Reply:
    """The reply to a vote."""
    markup, count = caller.markup, outcome.vote_count
    what = markup.bold(describe(outcome.request))
    if outcome.request.status is Status.APPROVED:
        return Reply((f"Approved: {what}",))
    if outcome.request.status is Status.REJECTED:
        return Reply((f"Rejected: {what}",))
    votes = f"{count.approvals} of {count.min_approvers} approvals, {count.remaining} more needed."
    return Reply((f"Your approval counts: {what}", markup.text(votes)))


def is_request_id(text: str) -> bool:
    """Whether the text has the form of a request's id."""
    return _REQUEST_ID.fullmatch(text) is not None


async def find_request(connection: AsyncConnection, caller: Caller, text: str) -> RequestRecord:
    """Find the organization's request with this id. Raises NotFound."""
    request_id = text.lower()
    found = await store.find(connection, caller.access.org_id, request_id) if is_request_id(request_id) else None
    if found is None:
        raise _Missing(NO_REQUEST)
    return found


def describe(request: RequestRecord) -> str:
    """The action that is to be approved, as text."""
    return f"{request.action} on {request.target_type} {request.target_id}"


class _Missing(NotFound):
    """NotFound with a message for the chat user, who may learn what is missing."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message


async def _vote(
    connection: AsyncConnection, caller: Caller, verdict: Verdict, text: str, reason: str | None
) -> CastVote:
    request = await find_request(connection, caller, text)
    ballot = Ballot(caller.access, request.id, reason, caller.trace_id, caller.now)
    return await voting.cast_vote(connection, verdict, ballot, caller.links)


async def _one_request(connection: AsyncConnection, caller: Caller, request: RequestRecord) -> Reply:
    names = await store.principal_names(connection, [request.requester_id])
    markup, state = caller.markup, request.status_at(caller.now)
    summary = request.payload.get("summary") if isinstance(request.payload, dict) else None
    requester = markup.text(names.get(request.requester_id, request.requester_id))
    lines = [
        _request_line(caller, request),
        *([markup.text(summary)] if summary else []),
        f"Status: {state.value}. Requested by {requester}.",
        *([f"Reason: {markup.text(request.reason)}"] if request.reason else []),
    ]
    (case,) = await voting.load_cases(connection, caller.access, [request])
    if not case.withdraws and voting.explain_rejection(case, caller.now) is None:
        lines.append(f"To reject it: {markup.code(f'/sluice reject {request.id} REASON')}")
    return Reply(tuple(lines), request.id if voting.explain_approval(case, caller.now) is None else None)


def _request_line(caller: Caller, request: RequestRecord) -> str:
    markup, page = caller.markup, caller.links.page_link(request)
    what = describe(request)
    shown = markup.bold(what) if page is None else markup.link(page, what)
    return (
        f"{markup.code(request.id)} {shown}, {request.risk_class.value}, until {request.expires_at:%Y-%m-%d %H:%M} UTC"
    )


def _issue_line(caller: Caller, slug: str, issue: IssueRecord) -> str:
    links, markup = caller.links, caller.markup
    page = links.pages.issue(links.org_slug, slug, issue.id)
    url = page or f"{links.api_url}/orgs/{links.org_slug}/projects/{slug}/issues/{issue.id}"
    seen = f"{issue.count} times, last {issue.last_seen:%Y-%m-%d %H:%M} UTC"
    return f"{markup.code(short_id(slug, issue.number))} {markup.link(url, issue.title)}, {seen}"


async def _project_slugs(connection: AsyncConnection, org_id: str, slug: str) -> dict[int, str]:
    """The slugs, by id, of the organization's project with this slug, or for "" of its first MAX_PROJECTS projects.
    Raises NotFound.
    """
    if slug and _SLUG.fullmatch(slug) is None:
        raise _Missing(NO_PROJECT)
    where = (projects.c.org_id == org_id) & projects.c.deleted_at.is_(None)
    if slug:
        where &= projects.c.slug == slug
    page = sa.select(projects.c.id, projects.c.slug).where(where).order_by(projects.c.id).limit(MAX_PROJECTS)
    found = {row.id: row.slug for row in await connection.execute(page)}
    if slug and not found:
        raise _Missing(NO_PROJECT)
    return found


async def _unresolved(connection: AsyncConnection, project_ids: list[int], now: datetime) -> list[IssueRecord]:
    """The most recently seen issues of all these projects. The issues of each project are read from its index."""
    newest = sa.union_all(*(sa.select(_unresolved_of(one, now).subquery()) for one in project_ids)).subquery()
    page = sa.select(newest).order_by(newest.c.last_seen.desc(), newest.c.id.desc()).limit(MAX_LISTED)
    return [IssueRecord.from_row(row) for row in (await connection.execute(page)).mappings()]


def _unresolved_of(project_id: int, now: datetime) -> sa.Select[tuple[object, ...]]:
    columns = issues.c
    is_over = (columns.status == IssueStatus.IGNORED.value) & (columns.ignored_until <= now)
    return (
        sa.select(issues)
        .where(columns.project_id == project_id, columns.merged_into.is_(None))
        .where((columns.status == IssueStatus.UNRESOLVED.value) | is_over)
        .order_by(columns.last_seen.desc(), columns.id.desc())
        .limit(MAX_LISTED)
    )


async def _find_issue(connection: AsyncConnection, project_ids: list[int], number: int) -> IssueRecord | None:
    statement = sa.select(issues.c.id).where(issues.c.project_id.in_(project_ids), issues.c.number == number)
    issue_id = await connection.scalar(statement)
    return None if issue_id is None else await lifecycle.find_merged(connection, issue_id)
