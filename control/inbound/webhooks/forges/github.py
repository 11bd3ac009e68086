"""GitHub, github.com and Enterprise Server, and the events that Gitea sends in the same form (`common_contents`).

https://docs.github.com/webhooks/webhook-events-and-payloads, .../using-webhooks/validating-webhook-deliveries
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from chassis.changes import MAX_NAME_LENGTH as MAX_ENVIRONMENT_LENGTH
from control.code.commits import NewCommit
from control.code.proposals.store import ProposalReport
from control.inbound.integrations.tables import WebhookEndpoint
from control.inbound.webhooks.forges.events import (
    ABSENT,
    BRANCH,
    MAX_COMMITS,
    CommitPayload,
    CommitsPushed,
    Content,
    Deployed,
    HookDeleted,
    Number,
    ReleasePublished,
    ScmEvent,
    TicketChanged,
    Time,
    clean_text,
    count_not_listed,
    has,
    link_items,
    listed_commit,
    parse_sha,
    parse_time,
    push_time,
    read_event_name,
    release_report,
    repository_name,
    require_event,
    require_version,
)
from control.inbound.webhooks.platform import Headers, PayloadError, Platform, clean_line, clean_url, decode, header
from control.inbound.webhooks.signatures import verify_body
from control.issues.references import MAX_TEXT
from control.issues.releases.tables import MAX_REF_LENGTH, MAX_TITLE_LENGTH, ProposalState
from control.issues.tables import MAX_LINK_TITLE_LENGTH, LinkState
from proto.identity import MAX_NAME_LENGTH

SYSTEM: Final = "github"
_HANDLED: Final = ("push", "pull_request", "release", "issues", "deployment_status", "meta")
PROPOSAL_ACTIONS: Final = frozenset(
    {
        *("opened", "edited", "closed", "reopened", "synchronize", "synchronized"),
        *("ready_for_review", "converted_to_draft"),
    }
)
TICKET_ACTIONS: Final = frozenset({"opened", "edited", "closed", "reopened"})
_STATES: Final[Mapping[str, LinkState]] = MappingProxyType({"open": LinkState.OPEN, "closed": LinkState.CLOSED})
_NOT_FIXED: Final = frozenset({"not_planned", "duplicate"})


class _Repository(msgspec.Struct, frozen=True):
    full_name: str
    default_branch: str | None = None
    pushed_at: Time = None


class _Push(msgspec.Struct, frozen=True):
    ref: str
    repository: _Repository
    commits: list[CommitPayload] | None
    total_commits: Number | None = None  # only from Gitea


class _Account(msgspec.Struct, frozen=True):
    login: str | None = None


class _Branch(msgspec.Struct, frozen=True):
    ref: str | None = None
    sha: str | None = None


class _PullRequest(msgspec.Struct, frozen=True):
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
    user: _Account | None = None
    head: _Branch | None = None
    base: _Branch | None = None


class _PullRequestEvent(msgspec.Struct, frozen=True):
    action: str
    pull_request: _PullRequest
    repository: _Repository


class _ReleasePayload(msgspec.Struct, frozen=True):
    tag_name: str
    html_url: str | None = None
    draft: bool = False
    published_at: Time = None


class _ReleaseEvent(msgspec.Struct, frozen=True):
    action: str
    release: _ReleasePayload
    repository: _Repository


class _IssuePayload(msgspec.Struct, frozen=True):
    number: Number
    title: str | None = None
    state: str | None = None
    state_reason: str | None = None
    html_url: str | None = None
    updated_at: Time = None


class _IssueEvent(msgspec.Struct, frozen=True):
    action: str
    issue: _IssuePayload
    repository: _Repository | None = None


class _Envelope(msgspec.Struct, frozen=True):
    """The fields that distinguish events."""

    ref: Raw = ABSENT
    commits: Raw = ABSENT
    pull_request: Raw = ABSENT
    review: Raw = ABSENT
    comment: Raw = ABSENT
    thread: Raw = ABSENT
    issue: Raw = ABSENT
    sub_issue: Raw = ABSENT
    release: Raw = ABSENT
    deployment_status: Raw = ABSENT
    hook: Raw = ABSENT
    zen: Raw = ABSENT


class _Deployment(msgspec.Struct, frozen=True):
    id: Number
    ref: str | None = None
    sha: str | None = None
    environment: str | None = None


class _DeploymentStatus(msgspec.Struct, frozen=True):
    state: str
    environment: str | None = None
    environment_url: str | None = None
    target_url: str | None = None
    created_at: Time = None


class _DeploymentEvent(msgspec.Struct, frozen=True):
    deployment_status: _DeploymentStatus
    deployment: _Deployment
    repository: _Repository


class _MetaEvent(msgspec.Struct, frozen=True):
    action: str
    hook_id: Number


class GitHub(Platform[ScmEvent]):
    """The platform."""

    def hook_id(self, headers: Headers) -> str | None:
        """The id of the webhook."""
        return header(headers, "X-GitHub-Hook-ID")

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Verify the signature of the body. A signature with SHA-1 does not count."""
        return verify_body(endpoint.secrets, body, header(headers, "X-Hub-Signature-256"), prefix="sha256=")

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body has no name)
        """The name of the event in the header."""
        return read_event_name(headers, "X-GitHub-Event")

    def parse(self, event: str, body: bytes, received_at: datetime) -> ScmEvent:
        """Parse the contents of the event."""
        kind = _kind(decode(_Envelope, body, event))
        require_event(fits=(kind or event) == event and (kind is not None or event not in _HANDLED), event=event)
        return ScmEvent(event, () if kind is None else _contents(kind, body, received_at))


def _kind(body: _Envelope) -> str | None:
    """The event with an effect that the body belongs to. None for other events."""
    if has(body.deployment_status):
        return "deployment_status"
    if has(body.release):
        return "release"
    if has(body.pull_request):
        return None if has(body.review) or has(body.comment) or has(body.thread) else "pull_request"
    if has(body.issue):
        return None if has(body.comment) or has(body.sub_issue) else "issues"
    if has(body.hook):
        return None if has(body.zen) else "meta"
    return "push" if has(body.ref) and has(body.commits) else None


def _contents(kind: str, body: bytes, received_at: datetime) -> tuple[Content, ...]:
    if kind == "deployment_status":
        return _deployment(decode(_DeploymentEvent, body, kind), received_at)
    if kind == "meta":
        deleted = decode(_MetaEvent, body, kind)
        return (HookDeleted(str(deleted.hook_id)),) if deleted.action == "deleted" else ()
    return common_contents(kind, body, received_at, SYSTEM, newest_first=False)


def common_contents(
    kind: str, body: bytes, received_at: datetime, system: str, *, newest_first: bool
) -> tuple[Content, ...]:
    """Parse the contents of an event that both platforms have. `newest_first`: the order of the commits of a push."""
    match kind:
        case "push":
            return _push(decode(_Push, body, kind), received_at, newest_first=newest_first)
        case "pull_request":
            return _proposal(decode(_PullRequestEvent, body, kind))
        case "release":
            return _release(decode(_ReleaseEvent, body, kind), received_at)
        case _:
            return _ticket(decode(_IssueEvent, body, kind), system)


def _push(body: _Push, received_at: datetime, *, newest_first: bool) -> tuple[CommitsPushed, ...]:
    """The commits of a push to a branch. On the default branch all commits count, on other branches only those that
    were on no branch before.
    """
    listed = (body.commits or [])[::-1] if newest_first else body.commits or []
    given = listed[-MAX_COMMITS:]
    not_listed: int | None = count_not_listed(body.total_commits, listed, given)
    if body.total_commits is None and len(listed) >= MAX_COMMITS:  # GitHub lists no more, and gives no total
        not_listed = None
    if not (given or not_listed) or not body.ref.startswith(BRANCH):
        return ()
    name = repository_name(body.repository.full_name)
    is_default = body.ref.removeprefix(BRANCH) == body.repository.default_branch
    found: dict[str, NewCommit] = {}
    for one in given:
        if is_default or one.distinct:
            commit = listed_commit(name, one)
            found[commit.sha] = commit
    if not is_default:
        return (CommitsPushed(tuple(found.values()), None, not_listed),) if found or not_listed != 0 else ()
    return (
        CommitsPushed(tuple(found.values()), push_time(parse_time(body.repository.pushed_at), received_at), not_listed),
    )


def _proposal(body: _PullRequestEvent) -> tuple[ProposalReport, ...]:
    """The pull request, or nothing if the event changes none of the stored fields."""
    one = body.pull_request
    changed_at = parse_time(one.updated_at)
    if body.action not in PROPOSAL_ACTIONS:
        return ()
    if changed_at is None:
        raise PayloadError("The pull request does not say when it was changed.")
    is_merged = bool(one.merged) or (one.merged is None and one.merged_at is not None)
    head, base = one.head or _Branch(), one.base or _Branch()
    closed = ProposalState.MERGED if is_merged else ProposalState.CLOSED
    return (
        ProposalReport(
            repository=repository_name(body.repository.full_name),
            number=str(one.number),
            title=clean_line(one.title, MAX_TITLE_LENGTH) or f"#{one.number}",
            state=ProposalState.OPEN if one.state == "open" and not is_merged else closed,
            changed_at=changed_at,
            text=clean_text(one.body or "", MAX_TEXT),
            head_ref=clean_line(head.ref, MAX_REF_LENGTH),
            head_sha=parse_sha(head.sha),
            # An open pull request has the hash of a trial merge.
            merge_sha=parse_sha(one.merge_commit_sha) if is_merged else None,
            author_name=clean_line(None if one.user is None else one.user.login, MAX_NAME_LENGTH),
            url=clean_url(one.html_url),
            opened_at=parse_time(one.created_at),
            merged_at=parse_time(one.merged_at) if is_merged else None,
            targets_default_branch=None in (base.ref, body.repository.default_branch)
            or base.ref == body.repository.default_branch,
        ),
    )


def _release(body: _ReleaseEvent, received_at: datetime) -> tuple[ReleasePublished, ...]:
    """The release, if it is published."""
    one = body.release
    if body.action != "published" or one.draft:
        return ()
    version = require_version(one.tag_name)
    report = release_report(version, clean_url(one.html_url), parse_time(one.published_at), received_at)
    return (ReleasePublished(repository_name(body.repository.full_name), report),)


def _ticket(body: _IssueEvent, system: str) -> tuple[TicketChanged, ...]:
    """The ticket. `system`: the system that links may name beside the number, if the address belongs to no known
    system.
    """
    one = body.issue
    state, changed_at = _STATES.get(one.state or ""), parse_time(one.updated_at)
    if body.action not in TICKET_ACTIONS or body.repository is None or state is None or changed_at is None:
        return ()
    name = f"{repository_name(body.repository.full_name)}#{one.number}"
    return (
        TicketChanged(
            items=link_items(system, name, clean_url(one.html_url)),
            title=clean_line(one.title, MAX_LINK_TITLE_LENGTH),
            state=state,
            changed_at=changed_at,
            is_reopened=body.action == "reopened",
            is_fixed=one.state_reason not in _NOT_FIXED,
        ),
    )


def _deployment(body: _DeploymentEvent, received_at: datetime) -> tuple[Deployed, ...]:
    status, deployment = body.deployment_status, body.deployment
    at = parse_time(status.created_at)
    if status.state != "success":
        return ()
    if at is None:
        raise PayloadError("The deployment does not say when it succeeded.")
    return (
        Deployed(
            repository=repository_name(body.repository.full_name),
            id=str(deployment.id),
            at=min(at, received_at),
            environment=clean_line(status.environment or deployment.environment, MAX_ENVIRONMENT_LENGTH),
            ref=clean_line(deployment.ref, MAX_REF_LENGTH),
            sha=parse_sha(deployment.sha),
            url=clean_url(status.environment_url or None) or clean_url(status.target_url or None),
        ),
    )
