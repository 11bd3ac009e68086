"""Bitbucket: Cloud, and Data Center, whose payloads have nothing in common (`bitbucket_data_center`).

https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/

Neither lists the files of commits, and neither names the default branch in a push. `main` and `master` count as default
branches, unless the payload says otherwise.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from control.code.commits import NewCommit
from control.code.proposals.store import ProposalReport
from control.inbound.integrations.tables import WebhookEndpoint
from control.inbound.webhooks.forges.bitbucket_data_center import (
    DEFAULT_BRANCHES,
    PULL_REQUESTS,
    STATES,
    data_center_contents,
    new_proposal,
)
from control.inbound.webhooks.forges.events import (
    ABSENT,
    MAX_COMMITS,
    CommitsPushed,
    Content,
    Number,
    ScmEvent,
    TicketChanged,
    Time,
    has,
    link_items,
    new_commit,
    parse_time,
    push_time,
    read_event_name,
    repository_name,
    require_event,
)
from control.inbound.webhooks.platform import Headers, Platform, clean_line, clean_url, decode, header
from control.inbound.webhooks.signatures import verify_body
from control.issues.tables import MAX_LINK_TITLE_LENGTH, LinkState

SYSTEM: Final = "bitbucket"
_RAW_AUTHOR: Final = re.compile(r"([^<>]{0,200})<([^<>]{0,254})>\s*")
_CLOUD_PULL_REQUESTS: Final = frozenset(
    {f"pullrequest:{one}" for one in ("created", "updated", "fulfilled", "rejected")}
)
_CLOUD_ISSUES: Final = frozenset({"issue:created", "issue:updated"})
_FIXED: Final = frozenset({"resolved", "closed"})
_TICKET_STATES: Final[Mapping[str, LinkState]] = MappingProxyType(
    {
        **dict.fromkeys(("new", "open", "on hold"), LinkState.OPEN),
        **dict.fromkeys(("resolved", "closed", "invalid", "duplicate", "wontfix"), LinkState.CLOSED),
    }
)


class _Envelope(msgspec.Struct, frozen=True):
    """The fields that distinguish events."""

    event_key: str | None = msgspec.field(default=None, name="eventKey")
    push: Raw = ABSENT
    pullrequest: Raw = ABSENT
    approval: Raw = ABSENT
    changes_request: Raw = ABSENT
    comment: Raw = ABSENT
    issue: Raw = ABSENT


class _Link(msgspec.Struct, frozen=True):
    href: str | None = None


class _Links(msgspec.Struct, frozen=True):
    html: _Link | None = None


class _Branch(msgspec.Struct, frozen=True):
    name: str | None = None


class _Repository(msgspec.Struct, frozen=True):
    full_name: str
    mainbranch: _Branch | None = None


class _Author(msgspec.Struct, frozen=True):
    raw: str | None = None
    display_name: str | None = None


class _Commit(msgspec.Struct, frozen=True):
    hash: str
    message: str | None = None
    date: Time = None
    author: _Author | None = None
    links: _Links | None = None


class _Ref(msgspec.Struct, frozen=True):
    type: str | None = None
    name: str | None = None


class _Change(msgspec.Struct, frozen=True):
    new: _Ref | None = None
    commits: list[_Commit] | None = None
    truncated: bool | None = None


class _Changes(msgspec.Struct, frozen=True):
    changes: list[_Change]


class _Push(msgspec.Struct, frozen=True):
    repository: _Repository
    push: _Changes


class _MergeCommit(msgspec.Struct, frozen=True):
    hash: str | None = None


class _End(msgspec.Struct, frozen=True):
    branch: _Branch | None = None
    commit: _MergeCommit | None = None


class _PullRequest(msgspec.Struct, frozen=True):
    id: Number
    title: str
    state: str
    updated_on: Time
    created_on: Time = None
    description: str | None = None
    author: _Author | None = None
    source: _End | None = None
    destination: _End | None = None
    merge_commit: _MergeCommit | None = None
    links: _Links | None = None


class _PullRequestEvent(msgspec.Struct, frozen=True):
    repository: _Repository
    pullrequest: _PullRequest


class _Issue(msgspec.Struct, frozen=True):
    id: Number
    title: str | None = None
    state: str | None = None
    updated_on: Time = None
    links: _Links | None = None


class _IssueEvent(msgspec.Struct, frozen=True):
    repository: _Repository
    issue: _Issue


class Bitbucket(Platform[ScmEvent]):
    """The platform."""

    def hook_id(self, headers: Headers) -> str | None:
        """The id of the webhook. Data Center sends none."""
        return header(headers, "X-Hook-UUID")

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Verify the signature of the body."""
        return verify_body(endpoint.secrets, body, header(headers, "X-Hub-Signature"), prefix="sha256=")

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (Cloud's body has no name)
        """The name of the event in the header."""
        return read_event_name(headers, "X-Event-Key")

    def parse(self, event: str, body: bytes, received_at: datetime) -> ScmEvent:
        """Parse the contents of the event."""
        envelope = decode(_Envelope, body, event)
        if envelope.event_key is not None:
            require_event(fits=envelope.event_key == event, event=event)
            return ScmEvent(event, data_center_contents(event, body, received_at))
        return ScmEvent(event, _cloud(envelope, event, body, received_at))


def _cloud(envelope: _Envelope, event: str, body: bytes, received_at: datetime) -> tuple[Content, ...]:
    is_comment = has(envelope.comment) or has(envelope.approval) or has(envelope.changes_request)
    is_pull_request, is_issue = has(envelope.pullrequest) and not is_comment, has(envelope.issue) and not is_comment
    fits = has(envelope.push) == (event == "repo:push")
    fits &= is_pull_request == (event in _CLOUD_PULL_REQUESTS) and is_issue == (event in _CLOUD_ISSUES)
    require_event(fits=fits and event != "repo:refs_changed" and event not in PULL_REQUESTS, event=event)
    if is_pull_request:
        return _pull_request(decode(_PullRequestEvent, body, event))
    if is_issue:
        return _ticket(decode(_IssueEvent, body, event))
    return _push(decode(_Push, body, event), received_at) if event == "repo:push" else ()


def _push(body: _Push, received_at: datetime) -> tuple[CommitsPushed, ...]:
    """The commits of a push. Bitbucket lists the newest 5 commits of each change, newest first, and says whether there
    are more.
    """
    name = repository_name(body.repository.full_name)
    found: dict[bool, dict[str, NewCommit]] = {True: {}, False: {}}
    truncated: set[bool] = set()
    for change in body.push.changes:
        given = (change.commits or [])[:MAX_COMMITS]
        if change.new is None or change.new.type not in ("branch", "named_branch"):
            continue
        is_default = _is_default(change.new.name, body.repository.mainbranch)
        if change.truncated or len(given) < len(change.commits or []):
            truncated.add(is_default)
        for one in reversed(given):
            commit = _commit(name, one)
            found[is_default][commit.sha] = commit
    at = push_time(None, received_at)
    pushed = []
    for is_default, of_branch in found.items():
        kept = tuple(of_branch.values())[-MAX_COMMITS:]
        not_listed = None if is_default in truncated else len(of_branch) - len(kept)
        pushed.append(CommitsPushed(kept, at if is_default else None, not_listed))
    return tuple(one for one in pushed if one.commits or one.not_listed is None)


def _is_default(branch: str | None, named: _Branch | None) -> bool:
    return branch == named.name if named is not None and named.name else branch in DEFAULT_BRANCHES


def _commit(name: str, one: _Commit) -> NewCommit:
    author = one.author or _Author()
    match = _RAW_AUTHOR.fullmatch(author.raw or "")
    return new_commit(
        name,
        one.hash,
        one.message,
        author_name=(match[1] if match else author.raw) or author.display_name,
        author_email=match[2] if match else None,
        authored_at=one.date,
        address=_href(one.links),
    )


def _pull_request(body: _PullRequestEvent) -> tuple[ProposalReport, ...]:
    one = body.pullrequest
    state = STATES.get(one.state)
    source, destination = one.source or _End(), one.destination or _End()
    main, branch = body.repository.mainbranch, destination.branch
    is_named = main is not None and main.name and branch is not None
    return new_proposal(
        state,
        one.updated_on,
        repository=repository_name(body.repository.full_name),
        number=one.id,
        title=one.title,
        text=one.description,
        head_ref=None if source.branch is None else source.branch.name,
        head_sha=None if source.commit is None else source.commit.hash,
        merge_sha=None if one.merge_commit is None else one.merge_commit.hash,
        author_name=None if one.author is None else one.author.display_name,
        url=_href(one.links),
        opened_on=one.created_on,
        targets_default_branch=not is_named or _is_default(branch.name if branch else None, main),
    )


def _ticket(body: _IssueEvent) -> tuple[TicketChanged, ...]:
    one = body.issue
    state, changed_at = _TICKET_STATES.get(one.state or ""), parse_time(one.updated_on)
    if state is None or changed_at is None:
        return ()
    name = f"{repository_name(body.repository.full_name)}#{one.id}"
    return (
        TicketChanged(
            items=link_items(SYSTEM, name, clean_url(_href(one.links))),
            title=clean_line(one.title, MAX_LINK_TITLE_LENGTH),
            state=state,
            changed_at=changed_at,
            is_fixed=one.state in _FIXED,
        ),
    )


def _href(links: _Links | None) -> str | None:
    return None if links is None or links.html is None else links.html.href
