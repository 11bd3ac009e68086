"""Decides what an attempt sends, what its result is, and what follows from the result. All functions are pure functions
of the response, the time and a random number.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from control.notify.message import Message
from control.outbound.egress import EgressError, HttpReply

# Standard Webhooks 1.0.0: the first attempt is made at once, then retries after these delays (seconds), 76 hours in
# total.
RETRY_DELAYS_S: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
MAX_ATTEMPTS: Final = len(RETRY_DELAYS_S) + 1
JITTER: Final = 0.2  # of a delay, up or down, so that deliveries that failed together are not retried together
MAX_RETRY_AFTER_S: Final = 86_400
DISABLE_AFTER: Final = timedelta(days=5)  # of repeated failures without any success
MAX_FAILURE_GAP: Final = timedelta(days=2)  # after a longer gap between failures, the failing period starts again
_GONE: Final = 410
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 429})  # in addition to 5xx
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt. `detail` is human-readable text of Sluice. It contains no address and nothing of a
    response body.

    `permanent`: another attempt would fail, too. `endpoint_gone`: the receiver wants no further messages.
    `service_fault`: this service or its operator is at fault, not the channel; such a result is never permanent.
    `recipient_progress`: marks of the recipients that need no further attempt, in the platform's format. Empty:
    unchanged.
    """

    ok: bool
    detail: str
    permanent: bool = False
    retry_after_s: int | None = None
    endpoint_gone: bool = False
    service_fault: bool = False
    recipient_progress: str = ""


def from_reply(reply: HttpReply, now: datetime) -> AttemptResult:
    """The result by HTTP status, unless the platform defines another result."""
    status = reply.status
    if 200 <= status < 300:
        return AttemptResult(True, f"Delivered (HTTP {status}).")
    if 300 <= status < 400:
        return AttemptResult(
            False, f"The receiver responded with a redirect, which is not followed (HTTP {status}).", permanent=True
        )
    if status in _TRANSIENT_STATUSES or status >= 500:
        wait = parse_retry_after(reply.headers.get("Retry-After"), now)
        return AttemptResult(False, f"The receiver is temporarily unavailable (HTTP {status}).", retry_after_s=wait)
    if status == _GONE:
        return AttemptResult(False, f"The endpoint is gone (HTTP {status}).", permanent=True, endpoint_gone=True)
    return AttemptResult(False, f"The receiver rejected the message (HTTP {status}).", permanent=True)


def from_failure(failure: EgressError) -> AttemptResult:
    """The result when there was no response."""
    return AttemptResult(False, failure.detail, permanent=failure.permanent)


def parse_retry_after(text: str | None, now: datetime) -> int | None:
    """Parse a Retry-After header, a number or a date, into seconds (1 to 86 400). Returns None if it is missing or
    malformed.
    """
    if text is None or not text.isascii():
        return None
    if _SECONDS.fullmatch(text.strip()):
        return clamp_wait(float(text))
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return clamp_wait((aware - now).total_seconds())


def clamp_wait(seconds: float) -> int:
    """A requested wait, rounded up, within 1 to 86 400 seconds. NaN becomes 1."""
    bounded = min(max(seconds, 1.0), float(MAX_RETRY_AFTER_S)) if seconds == seconds else 1.0  # noqa: PLR0124
    return -int(-bounded // 1)


def backoff(attempts: int, retry_after_s: int | None, random_value: float) -> timedelta:
    """The delay after `attempts` attempts, in seconds. It is never shorter than the receiver's Retry-After.
    `random_value`: from 0 to 1.
    """
    planned = RETRY_DELAYS_S[min(attempts, len(RETRY_DELAYS_S)) - 1] * (1 + JITTER * (2 * random_value - 1))
    return timedelta(seconds=max(planned, float(retry_after_s or 0)))


def interrupted_backoff(attempts: int) -> timedelta:
    """The delay before an interrupted attempt is repeated, after `attempts` other attempts. It is as long as the delay
    before that attempt.
    """
    return backoff(max(attempts, 1), None, 0.5)


def next_failing_since(since: datetime | None, failed_at: datetime | None, now: datetime) -> datetime:
    """Since when a channel that fails now has been failing: `since` if its last failure (`failed_at`) is at most
    MAX_FAILURE_GAP ago, otherwise now.
    """
    if since is None or failed_at is None or now - failed_at > MAX_FAILURE_GAP:
        return now
    return since


def is_failing_too_long(failing_since: datetime | None, now: datetime) -> bool:
    """Whether a channel that fails again has been failing for DISABLE_AFTER and has to be disabled."""
    return failing_since is not None and now - failing_since >= DISABLE_AFTER


_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message to send. It has the id of its delivery (the same in every attempt), the time of its creation, the
    current time, the marks of recipients that need no further attempt (`AttemptResult.recipient_progress`), and its
    organization.
    """

    id: str
    message: Message
    created_at: datetime
    now: datetime
    recipient_progress: str = ""
    org_id: str = ""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The URL, body and headers of a POST."""

    url: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def truncate(text: str, length: int) -> str:
    """The first `length` characters. A truncated text ends with an ellipsis."""
    return text if len(text) <= length else text[: length - len(_ELLIPSIS)].rstrip() + _ELLIPSIS


def one_line(text: str) -> str:
    """The text without line breaks and other control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
