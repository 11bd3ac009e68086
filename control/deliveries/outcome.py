"""How an attempt ended, and what follows: pure functions of what came back, the clock and a drawn number."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from chassis.egress import Reply, Unreached

# Standard Webhooks 1.0.0: the first attempt at once, then after these pauses (seconds); 76 hours in all.
PAUSES_S: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
MAX_ATTEMPTS: Final = len(PAUSES_S) + 1
JITTER: Final = 0.2  # of a pause, up or down, so that those who failed together do not come back together
MAX_RETRY_AFTER_S: Final = 86_400
OFF_AFTER: Final = timedelta(days=5)  # in which nothing came through, and much was tried
SILENCE: Final = timedelta(days=2)  # without a failure, after which it is not known that nothing comes through
_GONE: Final = 410
_PASSING: Final = frozenset({408, 409, 425, 429})  # besides 5xx
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`detail` is for people: what happened, in our words. It holds no address and nothing of an answer's body.

    `permanent`: another attempt would fail too. `gone`: the receiver wants nothing any more, ever. `ours`: the fault is
    this service's or its operator's, and says nothing of the channel; it is never permanent. `taken`: of several
    recipients those that need it no more, in the words of the kind of channel; empty: the attempt changed nothing.
    """

    ok: bool
    detail: str
    permanent: bool = False
    retry_after_s: int | None = None
    gone: bool = False
    ours: bool = False
    taken: str = ""


def from_reply(reply: Reply, now: datetime) -> Outcome:
    """What a status says, where the kind of channel says nothing else."""
    status = reply.status
    if 200 <= status < 300:
        return Outcome(True, f"Delivered (HTTP {status}).")
    if 300 <= status < 400:
        return Outcome(False, f"The receiver redirects, which is not followed (HTTP {status}).", permanent=True)
    if status in _PASSING or status >= 500:
        wait = retry_after(reply.headers.get("Retry-After"), now)
        return Outcome(False, f"The receiver cannot take it now (HTTP {status}).", retry_after_s=wait)
    if status == _GONE:
        return Outcome(False, f"The receiver is gone (HTTP {status}).", permanent=True, gone=True)
    return Outcome(False, f"The receiver refuses it (HTTP {status}).", permanent=True)


def from_failure(failure: Unreached) -> Outcome:
    """When there was no answer."""
    return Outcome(False, failure.detail, permanent=failure.permanent)


def retry_after(text: str | None, now: datetime) -> int | None:
    """Whole seconds (1 to 86 400) out of a Retry-After header, a number or a date; None for none and for nonsense."""
    if text is None or not text.isascii():
        return None
    if _SECONDS.fullmatch(text.strip()):
        return clamped(float(text))
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return clamped((aware - now).total_seconds())


def clamped(seconds: float) -> int:
    """A wait that somebody asks for, rounded up, within 1 to 86 400 seconds. NaN is 1."""
    bounded = min(max(seconds, 1.0), float(MAX_RETRY_AFTER_S)) if seconds == seconds else 1.0  # noqa: PLR0124
    return -int(-bounded // 1)


def pause(attempts: int, wanted_s: int | None, draw: float) -> timedelta:
    """Until the attempt after `attempts` ones; `draw` from 0 to 1. Never before the receiver wanted it."""
    planned = PAUSES_S[min(attempts, len(PAUSES_S)) - 1] * (1 + JITTER * (2 * draw - 1))
    return timedelta(seconds=max(planned, float(wanted_s or 0)))


def pause_again(attempts: int) -> timedelta:
    """Until an attempt that was interrupted after `attempts` others is made again: as long as before it."""
    return pause(max(attempts, 1), None, 0.5)


def failing_from(since: datetime | None, failed_at: datetime | None, now: datetime) -> datetime:
    """Since when a channel fails that fails now: what was `since` then, and failed last at `failed_at`, counts where no
    more than SILENCE lies between.
    """
    if since is None or failed_at is None or now - failed_at > SILENCE:
        return now
    return since


def is_failing_too_long(failing_since: datetime | None, now: datetime) -> bool:
    """Whether a channel that fails again is to be switched off."""
    return failing_since is not None and now - failing_since >= OFF_AFTER
