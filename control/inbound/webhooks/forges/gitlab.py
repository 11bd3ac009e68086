"""GitLab, gitlab.com and self-managed.

https://docs.gitlab.com/user/project/integrations/webhooks/ (signing tokens), .../webhook_events/
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec

from chassis.changes import MAX_NAME_LENGTH
from control.code.proposals.store import ProposalReport
from control.inbound.integrations.tables import WebhookEndpoint
from control.inbound.webhooks.forges.events import (
    BRANCH,
    MAX_COMMITS,
    CommitAuthor,
    CommitPayload,
    CommitsPushed,
    Content,
    Deployed,
    Number,
    ReleasePublished,
    ScmEvent,
    TicketChanged,
    Time,
    clean_text,
    count_not_listed,
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
from control.inbound.webhooks.signatures import verify_standard, verify_token
from control.issues.references import MAX_TEXT
from control.issues.releases.tables import MAX_REF_LENGTH, MAX_TITLE_LENGTH, ProposalState
from control.issues.tables import MAX_LINK_TITLE_LENGTH, LinkState

SYSTEM: Final = "gitlab"
_PREFIX: Final = b"whsec_"
_DELIVERY_ID: Final = re.compile(r"[!-~]{1,128}")
_SYSTEM_HOOK: Final = "System Hook"  # of any kind of event
_HEADERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "push": ("Push Hook",),
        "tag_push": ("Tag Push Hook",),
        "merge_request": ("Merge Request Hook",),
        "issue": ("Issue Hook", "Confidential Issue Hook"),
        "work_item": ("Issue Hook", "Confidential Issue Hook", "Work Item Hook"),
        "release": ("Release Hook",),
        "deployment": ("Deployment Hook",),
    }
)
_KNOWN_HEADERS: Final = frozenset(name for names in _HEADERS.values() for name in names)
_MERGE_REQUEST_ACTIONS: Final = frozenset({None, "open", "update", "close", "reopen", "merge"})
_TICKET_ACTIONS: Final = frozenset({None, "open", "update", "close", "reopen"})
_PROPOSAL_STATES: Final[Mapping[str, ProposalState]] = MappingProxyType(
    {
        "opened": ProposalState.OPEN,
        "locked": ProposalState.OPEN,  # during a merge
        "closed": ProposalState.CLOSED,
        "merged": ProposalState.MERGED,
    }
)
_TICKET_STATES: Final[Mapping[str, LinkState]] = MappingProxyType(
    {"opened": LinkState.OPEN, "closed": LinkState.CLOSED}
)


class _Envelope(msgspec.Struct, frozen=True):
    object_kind: str | None = None
    event_name: str | None = None


class _Project(msgspec.Struct, frozen=True):
    path_with_namespace: str
    default_branch: str | None = None
    web_url: str | None = None


class _Push(msgspec.Struct, frozen=True):
    ref: str
    project: _Project
    commits: list[CommitPayload] | None
    total_commits_count: Number | None = None


class _LastCommit(msgspec.Struct, frozen=True):
    id: str | None = None
    author: CommitAuthor | None = None


class _MergeRequest(msgspec.Struct, frozen=True):
    iid: Number
    title: str
    state: str
    updated_at: Time
    created_at: Time = None
    description: str | None = None
    source_branch: str | None = None
    target_branch: str | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None
    last_commit: _LastCommit | None = None
    url: str | None = None
    action: str | None = None


class _MergeRequestEvent(msgspec.Struct, frozen=True):
    project: _Project
    object_attributes: _MergeRequest


class _Ticket(msgspec.Struct, frozen=True):
    iid: Number
    title: str | None = None
    state: str | None = None
    updated_at: Time = None
    url: str | None = None
    action: str | None = None


class _TicketEvent(msgspec.Struct, frozen=True):
    object_attributes: _Ticket
    project: _Project | None = None  # a work item of a group has no project


class _ReleaseEvent(msgspec.Struct, frozen=True):
    tag: str
    project: _Project
    action: str | None = None
    url: str | None = None
    released_at: Time = None


class _DeploymentEvent(msgspec.Struct, frozen=True):
    status: str
    deployment_id: Number
    project: _Project
    status_changed_at: Time = None
    environment: str | None = None
    environment_external_url: str | None = None
    deployable_url: str | None = None
    commit_url: str | None = None
    short_sha: str | None = None
    ref: str | None = None


class GitLab(Platform[ScmEvent]):
    """The platform."""

    def hook_id(self, headers: Headers) -> str | None:
        """The id of the webhook."""
        return header(headers, "X-Gitlab-Webhook-UUID")

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:
        """Verify the signature with the signing token. If there is no signature, and only if the integration allows it,
        compare the secret token, which does not sign the body.
        """
        if any(name in headers for name in ("webhook-signature", "webhook-timestamp")):
            return verify_standard(
                [_signing_key(secret) for secret in endpoint.secrets],
                body,
                header(headers, "webhook-id"),
                header(headers, "webhook-timestamp"),
                header(headers, "webhook-signature"),
                now,
            )
        return endpoint.integration.config.allow_plain_token and verify_token(
            endpoint.secrets, header(headers, "X-Gitlab-Token")
        )

    def delivery_id(self, headers: Headers) -> str | None:
        """The id of the event, if there is a signature, which covers the id."""
        value = header(headers, "webhook-id") if "webhook-signature" in headers else None
        return value if value is not None and _DELIVERY_ID.fullmatch(value) else None

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the name in the header is GitLab's)
        """The name of the event in the header."""
        return read_event_name(headers, "X-Gitlab-Event")

    def parse(self, event: str, body: bytes, received_at: datetime) -> ScmEvent:
        """Parse the contents of the event."""
        envelope = decode(_Envelope, body, event)
        kind = envelope.object_kind or envelope.event_name or ""
        names = _HEADERS.get(kind)
        fits = event == _SYSTEM_HOOK or (event in names if names is not None else event not in _KNOWN_HEADERS)
        require_event(fits=fits, event=event)
        return ScmEvent(event, _contents(kind, event, body, received_at))


def _signing_key(secret: bytes) -> bytes:
    """The key in a GitLab signing token, which is base64 behind a prefix."""
    if not secret.startswith(_PREFIX):
        return secret
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True) or secret
    except binascii.Error:
        return secret


def _contents(kind: str, event: str, body: bytes, received_at: datetime) -> tuple[Content, ...]:
    match kind:
        case "push":
            return _push(decode(_Push, body, event), received_at)
        case "merge_request":
            return _merge_request(decode(_MergeRequestEvent, body, event))
        case "issue" | "work_item":
            return _ticket(decode(_TicketEvent, body, event))
        case "release":
            return _release(decode(_ReleaseEvent, body, event), received_at)
        case "deployment":
            return _deployment(decode(_DeploymentEvent, body, event), received_at)
        case _:
            return ()


def _push(body: _Push, received_at: datetime) -> tuple[CommitsPushed, ...]:
    """The commits of a push. GitLab lists the newest 20 commits, oldest first."""
    given = (body.commits or [])[-MAX_COMMITS:]
    not_listed = count_not_listed(body.total_commits_count, body.commits or [], given)
    if not (given or not_listed) or not body.ref.startswith(BRANCH):
        return ()
    name = repository_name(body.project.path_with_namespace)
    found = {one.sha: one for one in (listed_commit(name, each) for each in given)}
    is_default = body.ref.removeprefix(BRANCH) == body.project.default_branch
    at = push_time(None, received_at) if is_default else None
    return (CommitsPushed(tuple(found.values()), at, not_listed),)


def _merge_request(body: _MergeRequestEvent) -> tuple[ProposalReport, ...]:
    one = body.object_attributes
    state, changed_at = _PROPOSAL_STATES.get(one.state), parse_time(one.updated_at)
    if one.action not in _MERGE_REQUEST_ACTIONS or state is None:
        return ()
    if changed_at is None:
        raise PayloadError("The merge request does not say when it was changed.")
    last = one.last_commit or _LastCommit()
    default = body.project.default_branch
    merge_sha = parse_sha(one.merge_commit_sha) or parse_sha(one.squash_commit_sha) or parse_sha(last.id)
    return (
        ProposalReport(
            repository=repository_name(body.project.path_with_namespace),
            number=str(one.iid),
            title=clean_line(one.title, MAX_TITLE_LENGTH) or f"!{one.iid}",
            state=state,
            changed_at=changed_at,
            text=clean_text(one.description or "", MAX_TEXT),
            head_ref=clean_line(one.source_branch, MAX_REF_LENGTH),
            head_sha=parse_sha(last.id),
            merge_sha=merge_sha if state is ProposalState.MERGED else None,
            author_name=clean_line(None if last.author is None else last.author.name, MAX_NAME_LENGTH),
            url=clean_url(one.url),
            opened_at=parse_time(one.created_at),
            targets_default_branch=None in (one.target_branch, default) or one.target_branch == default,
        ),
    )


def _ticket(body: _TicketEvent) -> tuple[TicketChanged, ...]:
    one = body.object_attributes
    state, changed_at = _TICKET_STATES.get(one.state or ""), parse_time(one.updated_at)
    if body.project is None or one.action not in _TICKET_ACTIONS or state is None or changed_at is None:
        return ()
    name = f"{repository_name(body.project.path_with_namespace)}#{one.iid}"
    address = None if body.project.web_url is None else clean_url(f"{body.project.web_url}/-/issues/{one.iid}")
    return (
        TicketChanged(
            items=link_items(SYSTEM, name, address, clean_url(one.url)),
            title=clean_line(one.title, MAX_LINK_TITLE_LENGTH),
            state=state,
            changed_at=changed_at,
            is_reopened=one.action == "reopen",
        ),
    )


def _release(body: _ReleaseEvent, received_at: datetime) -> tuple[ReleasePublished, ...]:
    if body.action not in (None, "create"):
        return ()
    report = release_report(require_version(body.tag), clean_url(body.url), parse_time(body.released_at), received_at)
    return (ReleasePublished(repository_name(body.project.path_with_namespace), report),)


def _deployment(body: _DeploymentEvent, received_at: datetime) -> tuple[Deployed, ...]:
    at = parse_time(body.status_changed_at)
    if body.status != "success":
        return ()
    if at is None:
        raise PayloadError("The deployment does not say when it succeeded.")
    return (
        Deployed(
            repository=repository_name(body.project.path_with_namespace),
            id=str(body.deployment_id),
            at=min(at, received_at),
            environment=clean_line(body.environment, MAX_NAME_LENGTH),
            ref=clean_line(body.ref, MAX_REF_LENGTH),
            sha=parse_sha((body.commit_url or "").rpartition("/")[2]) or parse_sha(body.short_sha),
            url=clean_url(body.environment_external_url or None) or clean_url(body.deployable_url),
        ),
    )
