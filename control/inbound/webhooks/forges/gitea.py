"""Gitea, and Forgejo, which is a fork of Gitea.

https://docs.gitea.com/usage/webhooks, modules/structs/hook.go of Gitea, https://forgejo.org/docs/latest/user/webhooks/
"""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Raw

from control.inbound.integrations.tables import WebhookEndpoint
from control.inbound.webhooks.forges.events import ABSENT, ScmEvent, has, read_event_name, require_event
from control.inbound.webhooks.forges.github import common_contents
from control.inbound.webhooks.platform import Headers, Platform, decode, header
from control.inbound.webhooks.signatures import verify_body

_HANDLED: Final = ("push", "pull_request", "release", "issues")


class _Envelope(msgspec.Struct, frozen=True):
    """The fields that distinguish events."""

    ref: Raw = ABSENT
    after: Raw = ABSENT
    pull_request: Raw = ABSENT
    review: Raw = ABSENT
    comment: Raw = ABSENT
    issue: Raw = ABSENT
    release: Raw = ABSENT


class Gitea(Platform[ScmEvent]):
    """The platform. `vendors`: the names in its headers, in order of preference."""

    def __init__(self, system: str, vendors: tuple[str, ...]) -> None:
        self._system = system
        self._vendors = vendors

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Verify the signature of the body in the first of the headers that is present. If it is wrong, the other
        headers do not count.
        """
        return verify_body(endpoint.secrets, body, header(headers, self._header(headers, "Signature")))

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body has no name)
        """The name of the event in the header."""
        return read_event_name(headers, self._header(headers, "Event"))

    def parse(self, event: str, body: bytes, received_at: datetime) -> ScmEvent:
        """Parse the contents of the event."""
        kind = _kind(decode(_Envelope, body, event))
        require_event(fits=event.startswith(kind) if kind is not None else event not in _HANDLED, event=event)
        return ScmEvent(
            event, () if kind is None else common_contents(kind, body, received_at, self._system, newest_first=True)
        )

    def _header(self, headers: Headers, name: str) -> str:
        names = [f"X-{vendor}-{name}" for vendor in self._vendors]
        return next((one for one in names if one in headers), names[0])


GITEA: Final = Gitea("gitea", ("Gitea",))
FORGEJO: Final = Gitea("forgejo", ("Forgejo", "Gitea"))


def _kind(body: _Envelope) -> str | None:
    """The event with an effect that the body belongs to. None for other events."""
    if has(body.release):
        return "release"
    if has(body.comment):
        return None
    if has(body.pull_request):
        return None if has(body.review) else "pull_request"
    if has(body.issue):
        return "issues"
    return "push" if has(body.ref) and has(body.after) else None
