"""How an attempt ended, and what follows: pure functions of what came back, the clock and a drawn number."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from control.outbound.egress import EgressError, HttpReply

# Standard Webhooks 1.0.0: the first attempt at once, then after these pauses (seconds); 76 hours in all.
RETRY_DELAYS_S: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
MAX_ATTEMPTS: Final = len(RETRY_DELAYS_S) + 1
JITTER: Final = 0.2  # of a pause, up or down, so that those who failed together do not come back together
MAX_RETRY_AFTER_S: Final = 86_400
DISABLE_AFTER: Final = timedelta(days=5)  # in which nothing came through, and much was tried
MAX_FAILURE_GAP: Final = timedelta(days=2)  # without a failure, after which it is not known that nothing comes through
_GONE: Final = 410
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 429})  # besides 5xx
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """`detail` is for people: what happened, in our words. It holds no address and nothing of an answer's body.

    `permanent`: another attempt would fail too. `gone`: the receiver wants nothing any more, ever. `ours`: the fault is
    this service's or its operator's, and says nothing of the channel; it is never permanent. `taken`: of several
    recipients those that need it no more, in the words of the kind of channel; empty: the attempt changed nothing.
    """

    ok: bool
    detail: str
    permanent: bool = False
    retry_after_s: int | None = None
    endpoint_gone: bool = False
    service_fault: bool = False
    recipient_progress: str = ""


def from_reply(reply: HttpReply, now: datetime) -> AttemptOutcome:
    """What a status says, where the kind of channel says nothing else."""
    status = reply.status
    if 200 <= status < 300:
        return AttemptOutcome(True, f"Delivered (HTTP {status}).")
    if 300 <= status < 400:
        return AttemptOutcome(False, f"The receiver redirects, which is not followed (HTTP {status}).", permanent=True)
    if status in _TRANSIENT_STATUSES or status >= 500:
        wait = parse_retry_after(reply.headers.get("Retry-After"), now)
        return AttemptOutcome(False, f"The receiver cannot take it now (HTTP {status}).", retry_after_s=wait)
    if status == _GONE:
        return AttemptOutcome(False, f"The receiver is gone (HTTP {status}).", permanent=True, endpoint_gone=True)
    return AttemptOutcome(False, f"The receiver refuses it (HTTP {status}).", permanent=True)


def from_failure(failure: EgressError) -> AttemptOutcome:
    """When there was no answer."""
    return AttemptOutcome(False, failure.detail, permanent=failure.permanent)


def parse_retry_after(text: str | None, now: datetime) -> int | None:
    """Whole seconds (1 to 86 400) out of a Retry-After header, a number or a date; None for none and for nonsense."""
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
    """A wait that somebody asks for, rounded up, within 1 to 86 400 seconds. NaN is 1."""
    bounded = min(max(seconds, 1.0), float(MAX_RETRY_AFTER_S)) if seconds == seconds else 1.0  # noqa: PLR0124
    return -int(-bounded // 1)


def backoff(attempts: int, retry_after_s: int | None, random_value: float) -> timedelta:
    """Until the attempt after `attempts` ones; `draw` from 0 to 1. Never before the receiver wanted it."""
    planned = RETRY_DELAYS_S[min(attempts, len(RETRY_DELAYS_S)) - 1] * (1 + JITTER * (2 * random_value - 1))
    return timedelta(seconds=max(planned, float(retry_after_s or 0)))


def interrupted_backoff(attempts: int) -> timedelta:
    """Until an attempt that was interrupted after `attempts` others is made again: as long as before it."""
    return backoff(max(attempts, 1), None, 0.5)


def next_failing_since(since: datetime | None, failed_at: datetime | None, now: datetime) -> datetime:
    """Since when a channel fails that fails now: what was `since` then, and failed last at `failed_at`, counts where no
    more than SILENCE lies between.
    """
    if since is None or failed_at is None or now - failed_at > MAX_FAILURE_GAP:
        return now
    return since


def is_failing_too_long(failing_since: datetime | None, now: datetime) -> bool:
    """Whether a channel that fails again is to be switched off."""
    return failing_since is not None and now - failing_since >= DISABLE_AFTER
