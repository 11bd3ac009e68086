"""GitHub, github.com and Enterprise Server.

https://docs.github.com/webhooks/webhook-events-and-payloads, .../using-webhooks/validating-webhook-deliveries
"""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Raw

from chassis.changes.tables import MAX_NAME_LENGTH
from control.inbound.integrations.tables import Hook
from control.inbound.webhooks.forges import events, pull_requests
from control.inbound.webhooks.forges.events import Content, Deployed, HookDeleted, Number, ScmEvent, Time
from control.inbound.webhooks.forges.pull_requests import ABSENT, Repository, has
from control.inbound.webhooks.platform import Headers, PayloadError, decode, header
from control.inbound.webhooks.signatures import verify_body
from control.issues.releases.tables import MAX_REF_LENGTH

SYSTEM: Final = "github"
_HANDLED: Final = ("push", "pull_request", "release", "issues", "deployment_status", "meta")


class _Envelope(msgspec.Struct, frozen=True):
    """The fields by which events are told apart."""

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
    repository: Repository


class _MetaEvent(msgspec.Struct, frozen=True):
    action: str
    hook_id: Number


class GitHub:
    """The platform."""

    def hook_id(self, headers: Headers) -> str | None:
        """The id of the webhook."""
        return header(headers, "X-GitHub-Hook-ID")

    def verify(self, headers: Headers, body: bytes, hook: Hook, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """The signature of the body. That with SHA-1 does not count."""
        return verify_body(hook.secrets, body, header(headers, "X-Hub-Signature-256"), prefix="sha256=")

    def delivery_id(self, headers: Headers) -> str | None:  # noqa: ARG002 (it is not signed)
        """None: the header is not signed."""
        return None

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body has no name)
        """The name in the header."""
        return events.read_event_name(headers, "X-GitHub-Event")

    def parse(self, event: str, body: bytes, received_at: datetime) -> ScmEvent:
        """What the event says."""
        kind = _kind(decode(_Envelope, body, event))
        events.require_event(fits=(kind or event) == event and (kind is not None or event not in _HANDLED), event=event)
        return ScmEvent(event, () if kind is None else _contents(kind, body, received_at))


def _kind(body: _Envelope) -> str | None:
    """Which of the events that count a body is of; None for others."""
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
    match kind:
        case "push":
            return pull_requests.push(decode(pull_requests.Push, body, kind), received_at, newest_first=False)
        case "pull_request":
            return pull_requests.proposal(decode(pull_requests.PullRequestEvent, body, kind))
        case "release":
            return pull_requests.release(decode(pull_requests.ReleaseEvent, body, kind), received_at)
        case "issues":
            return pull_requests.ticket(decode(pull_requests.IssueEvent, body, kind), SYSTEM)
        case "deployment_status":
            return _deployment(decode(_DeploymentEvent, body, kind), received_at)
        case _:
            deleted = decode(_MetaEvent, body, kind)
            return (HookDeleted(str(deleted.hook_id)),) if deleted.action == "deleted" else ()


def _deployment(body: _DeploymentEvent, received_at: datetime) -> tuple[Deployed, ...]:
    status, deployment = body.deployment_status, body.deployment
    at = events.parse_time(status.created_at)
    if status.state != "success":
        return ()
    if at is None:
        raise PayloadError("The deployment does not say when it succeeded.")
    deployed = Deployed(
        repository=events.repository_name(body.repository.full_name),
        id=str(deployment.id),
        at=min(at, received_at),
        environment=events.clean_line(status.environment or deployment.environment, MAX_NAME_LENGTH),
        ref=events.clean_line(deployment.ref, MAX_REF_LENGTH),
        sha=events.parse_sha(deployment.sha),
        url=events.clean_url(status.environment_url or None) or events.clean_url(status.target_url or None),
    )
    return (deployed,)
