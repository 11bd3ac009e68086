"""Payloads that GitHub and Gitea share, because Gitea follows GitHub: pushes, pull requests, releases, issues."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from chassis.issues.tables import MAX_VERSION_LENGTH
from control.code.changes.repository import MAX_AHEAD
from control.code.commit_repository import NewCommit
from control.code.issue_links.addresses import OTHER, ExternalItem, identify
from control.code.proposal_repository import ProposalReport
from control.code.release_repository import ReleaseReport
from control.inbound.webhooks.forges import events
from control.inbound.webhooks.forges.events import (
    MAX_COMMITS,
    CommitsPushed,
    Number,
    ProposalChanged,
    ReleasePublished,
    TicketChanged,
    Time,
)
from control.inbound.webhooks.platform import PayloadError
from control.issues.references import MAX_TEXT
from control.issues.releases.tables import MAX_REF_LENGTH, MAX_TITLE_LENGTH, ProposalState
from control.issues.tables import MAX_EXTERNAL_ID_LENGTH, MAX_LINK_TITLE_LENGTH, LinkState
from proto.identity import MAX_NAME_LENGTH

BRANCH: Final = "refs/heads/"
ABSENT: Final = Raw()
PROPOSAL_ACTIONS: Final = frozenset(
    {
        *("opened", "edited", "closed", "reopened", "synchronize", "synchronized"),
        *("ready_for_review", "converted_to_draft"),
    }
)
TICKET_ACTIONS: Final = frozenset({"opened", "edited", "closed", "reopened"})
_STATES: Final[Mapping[str, LinkState]] = MappingProxyType({"open": LinkState.OPEN, "closed": LinkState.CLOSED})
_NOT_FIXED: Final = frozenset({"not_planned", "duplicate"})


class Repository(msgspec.Struct, frozen=True):
    full_name: str
    default_branch: str | None = None
    pushed_at: Time = None


class CommitAuthor(msgspec.Struct, frozen=True):
    name: str | None = None
    email: str | None = None


class CommitPayload(msgspec.Struct, frozen=True):
    id: str
    message: str | None = None
    timestamp: Time = None
    url: str | None = None
    author: CommitAuthor | None = None
    added: list[str] | None = None
    removed: list[str] | None = None
    modified: list[str] | None = None
    distinct: bool = True


class Push(msgspec.Struct, frozen=True):
    ref: str
    repository: Repository
    commits: list[CommitPayload] | None
    total_commits: Number | None = None  # Gitea's


class Account(msgspec.Struct, frozen=True):
    login: str | None = None


class Branch(msgspec.Struct, frozen=True):
    ref: str | None = None
    sha: str | None = None


class PullRequest(msgspec.Struct, frozen=True):
    number: Number
    title: str
    state: str
    updated_at: Time
    body: str | None = None
    merged: bool | None = None
    merged_at: Time = None
    created_at: Time = None
    merge_commit_sha: str | None = None
    html_url: str | None = None
    user: Account | None = None
    head: Branch | None = None
    base: Branch | None = None


class PullRequestEvent(msgspec.Struct, frozen=True):
    action: str
    pull_request: PullRequest
    repository: Repository


class ReleasePayload(msgspec.Struct, frozen=True):
    tag_name: str
    html_url: str | None = None
    draft: bool = False
    published_at: Time = None


class ReleaseEvent(msgspec.Struct, frozen=True):
    action: str
    release: ReleasePayload
    repository: Repository


class IssuePayload(msgspec.Struct, frozen=True):
    number: Number
    title: str | None = None
    state: str | None = None
    state_reason: str | None = None
    html_url: str | None = None
    updated_at: Time = None


class IssueEvent(msgspec.Struct, frozen=True):
    action: str
    issue: IssuePayload
    repository: Repository | None = None


def has(value: Raw) -> bool:
    """Whether a field is there, and not null."""
    return bytes(value) not in (b"", b"null")


def push(body: Push, received_at: datetime, *, newest_first: bool) -> tuple[CommitsPushed, ...]:
    """The commits of a push to a branch. On the default branch all count; elsewhere those that were on no branch."""
    listed = (body.commits or [])[::-1] if newest_first else body.commits or []
    given = listed[-MAX_COMMITS:]
    not_listed: int | None = events.count_not_listed(body.total_commits, listed, given)
    if body.total_commits is None and len(listed) >= MAX_COMMITS:  # GitHub lists no more, and does not count them
        not_listed = None
    if not (given or not_listed) or not body.ref.startswith(BRANCH):
        return ()
    name = events.repository_name(body.repository.full_name)
    is_default = body.ref.removeprefix(BRANCH) == body.repository.default_branch
    found: dict[str, NewCommit] = {}
    for one in given:
        if is_default or one.distinct:
            commit = _commit(name, one)
            found[commit.sha] = commit
    if not is_default:
        return (CommitsPushed(tuple(found.values()), None, not_listed),) if found or not_listed != 0 else ()
    at = events.push_time(events.parse_time(body.repository.pushed_at), received_at)
    return (CommitsPushed(tuple(found.values()), at, not_listed),)


def proposal(body: PullRequestEvent) -> tuple[ProposalChanged, ...]:
    """The pull request, unless nothing of it has changed that counts."""
    one = body.pull_request
    changed_at = events.parse_time(one.updated_at)
    if body.action not in PROPOSAL_ACTIONS:
        return ()
    if changed_at is None:
        raise PayloadError("The pull request does not say when it was changed.")
    is_merged = bool(one.merged) or (one.merged is None and one.merged_at is not None)
    head, base = one.head or Branch(), one.base or Branch()
    closed = ProposalState.MERGED if is_merged else ProposalState.CLOSED
    report = ProposalReport(
        repository=events.repository_name(body.repository.full_name),
        number=str(one.number),
        title=events.clean_line(one.title, MAX_TITLE_LENGTH) or f"#{one.number}",
        state=ProposalState.OPEN if one.state == "open" and not is_merged else closed,
        changed_at=changed_at,
        text=events.clean_text(one.body or "", MAX_TEXT),
        head_ref=events.clean_line(head.ref, MAX_REF_LENGTH),
        head_sha=events.parse_sha(head.sha),
        merge_sha=events.parse_sha(one.merge_commit_sha) if is_merged else None,  # of an open one: that of a trial
        author_name=events.clean_line(None if one.user is None else one.user.login, MAX_NAME_LENGTH),
        url=events.clean_url(one.html_url),
        opened_at=events.parse_time(one.created_at),
        merged_at=events.parse_time(one.merged_at) if is_merged else None,
        targets_default_branch=None in (base.ref, body.repository.default_branch)
        or base.ref == body.repository.default_branch,
    )
    return (ProposalChanged(report),)


def release(body: ReleaseEvent, received_at: datetime) -> tuple[ReleasePublished, ...]:
    """The release, once it is published."""
    one = body.release
    if body.action != "published" or one.draft:
        return ()
    version = require_version(one.tag_name)
    report = release_report(version, events.clean_url(one.html_url), events.parse_time(one.published_at), received_at)
    return (ReleasePublished(events.repository_name(body.repository.full_name), report),)


def release_report(version: str, url: str | None, at: datetime | None, received_at: datetime) -> ReleaseReport:
    """A release whose tag is its version. A time far ahead does not count."""
    return ReleaseReport(version, version, url, at if at is None or at <= received_at + MAX_AHEAD else None)


def require_version(tag: str) -> str:
    """The version of a release. Raises PayloadError."""
    version = events.clean_line(tag, MAX_VERSION_LENGTH)
    if version is None or version != tag:
        raise PayloadError("The tag of the release is too long, or not printable.")
    return version


def ticket(body: IssueEvent, system: str) -> tuple[TicketChanged, ...]:
    """The ticket. `system`: what links may name beside the number, where the address is of no known one."""
    one = body.issue
    state, changed_at = _STATES.get(one.state or ""), events.parse_time(one.updated_at)
    if body.action not in TICKET_ACTIONS or body.repository is None or state is None or changed_at is None:
        return ()
    name = f"{events.repository_name(body.repository.full_name)}#{one.number}"
    ticket = TicketChanged(
        items=link_items(system, name, events.clean_url(one.html_url)),
        title=events.clean_line(one.title, MAX_LINK_TITLE_LENGTH),
        state=state,
        changed_at=changed_at,
        is_reopened=body.action == "reopened",
        is_fixed=one.state_reason not in _NOT_FIXED,
    )
    return (ticket,)


def link_items(system: str, name: str, *addresses: str | None) -> tuple[ExternalItem, ...]:
    """How links may name an item: by its addresses; and by its name, where no address is of a known system."""
    found = [identify(address) for address in addresses if address is not None]
    if len(name) <= MAX_EXTERNAL_ID_LENGTH and all(one.system == OTHER for one in found):
        found.append(ExternalItem(system, name))
    return tuple(dict.fromkeys(found))


def _commit(name: str, one: CommitPayload) -> NewCommit:
    author = one.author or CommitAuthor()
    return events.new_commit(
        name,
        one.id,
        one.message,
        author_name=author.name,
        author_email=author.email,
        authored_at=one.timestamp,
        address=one.url,
        paths=events.list_files(one.added, one.modified, one.removed),
    )
