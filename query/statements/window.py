"""Half-open time windows: resolved from `from`, `to` and `hours`, and divided into slices, newest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from chassis.http.validation import Issues
from query.timestamps import HOUR, MAX_NANOS, MINUTE, TimestampError, parse_timestamp

DEFAULT_HOURS: Final = 24
MAX_HOURS: Final = 720
BUCKET: Final = 5 * MINUTE  # the tables' sort key begins with the project and this bucket of time
_SLICE_GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class Window:
    """Times from `from_ns`, inclusive, to `to_ns`, exclusive; nanoseconds since 1970. ValueError if empty or out of
    range.
    """

    from_ns: int
    to_ns: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_ns < self.to_ns <= MAX_NANOS:
            raise ValueError(f"invalid window: {self.from_ns} to {self.to_ns}")

    def intersect(self, other: "Window") -> "Window | None":
        """The overlap of both windows; None if there is none."""
        from_ns, to_ns = max(self.from_ns, other.from_ns), min(self.to_ns, other.to_ns)
        return Window(from_ns, to_ns) if from_ns < to_ns else None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time range of a request, as written."""

    from_text: str | None
    to_text: str | None
    hours: int | None

    @property
    def is_given(self) -> bool:
        """Whether the request has any time parameter."""
        return (self.from_text, self.to_text, self.hours) != (None, None, None)

    def resolve(self, now_ns: int, where: str, issues: Issues) -> Window | None:
        """The window at `now_ns`; None after recording an issue at `<where>.from` or `<where>.to`.

        `to` defaults to now, `from` to `to` minus `hours`; an explicit `from` overrides `hours`.
        """
        to_ns = _parse_bound(self.to_text, now_ns, f"{where}.to", issues) if self.to_text is not None else now_ns
        from_ns = _parse_bound(self.from_text, now_ns, f"{where}.from", issues) if self.from_text is not None else None
        if to_ns is None or (from_ns is None and self.from_text is not None):
            return None
        if from_ns is None:
            from_ns = max(0, to_ns - (self.hours or DEFAULT_HOURS) * HOUR)
        if from_ns >= to_ns:
            issues.add(f"{where}.{'from' if self.from_text is not None else 'to'}", "from must be before to.", "range")
        elif to_ns - from_ns > MAX_HOURS * HOUR:
            issues.add(f"{where}.from", f"from and to must be at most {MAX_HOURS} hours apart.", "range")
        else:
            return Window(from_ns, to_ns)
        return None


def slices(window: Window) -> Iterator[Window]:
    """Contiguous slices of `window`, newest first, each longer than the one before.

    A page is filled from the newest slice, so that a list of 50 rows does not sort a day. Slices end at bucket
    boundaries, so that no bucket is read twice.
    """
    upper, width = window.to_ns, BUCKET
    while upper > window.from_ns:
        edge = (upper - 1) // BUCKET * BUCKET  # start of the newest bucket
        lower = max(window.from_ns, edge - width)
        yield Window(lower, upper)
        upper, width = lower, width * _SLICE_GROWTH


def slices_oldest_first(window: Window) -> Iterator[Window]:
    """Contiguous slices of `window` likewise, oldest first."""
    lower, width = window.from_ns, BUCKET
    while lower < window.to_ns:
        edge = (lower // BUCKET + 1) * BUCKET  # end of the oldest bucket
        upper = min(window.to_ns, edge + width)
        yield Window(lower, upper)
        lower, width = upper, width * _SLICE_GROWTH


def _parse_bound(text: str, now_ns: int, path: str, issues: Issues) -> int | None:
    try:
        return parse_timestamp(text, now_ns)
    except TimestampError as error:
        issues.add(path, str(error), "format")
        return None
