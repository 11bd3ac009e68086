"""Sets of sequences as merged ranges. Finished sequences are nearly always one range with a few holes at its end."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from gateway.journal.interface import Range


class RangeSet:
    """A set of integers. Adjacent ranges are merged; the cost of operations depends on the number of ranges."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __iter__(self) -> Iterator[Range]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._firsts, value) - 1
        return at >= 0 and value <= self._lasts[at]

    def add(self, first: int, last: int) -> None:
        """Add the integers from `first` to `last`."""
        if last < first:
            return
        low = bisect_left(self._lasts, first - 1)  # the first range that overlaps or is adjacent
        high = bisect_right(self._firsts, last + 1)  # one past the last such range
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high], self._lasts[low:high] = [first], [last]

    def discard(self, first: int, last: int) -> None:
        """Remove the integers from `first` to `last`."""
        low = bisect_left(self._lasts, first)
        high = bisect_right(self._firsts, last)
        if last < first or low >= high:
            return
        left, right = self._firsts[low], self._lasts[high - 1]
        rest = [part for part in ((left, first - 1), (last + 1, right)) if part[0] <= part[1]]
        self._firsts[low:high] = [part[0] for part in rest]
        self._lasts[low:high] = [part[1] for part in rest]

    def covers(self, first: int, last: int) -> bool:
        """Whether the set has all integers from `first` to `last`; true for an empty range."""
        at = bisect_right(self._firsts, first) - 1
        return last < first or (at >= 0 and last <= self._lasts[at])

    def overlaps(self, first: int, last: int) -> bool:
        """Whether the set has any integer from `first` to `last`."""
        at = bisect_left(self._lasts, first)
        return first <= last and at < len(self._firsts) and self._firsts[at] <= last

    def holes(self, first: int, last: int) -> Iterator[Range]:
        """The integers from `first` to `last` that are not in the set, as ascending ranges."""
        at = bisect_left(self._lasts, first)
        while first <= last:
            if at == len(self._firsts) or self._firsts[at] > last:
                yield first, last
                return
            if self._firsts[at] > first:
                yield first, self._firsts[at] - 1
            first = self._lasts[at] + 1
            at += 1

    def intersection(self, first: int, last: int) -> Iterator[Range]:
        """The integers from `first` to `last` that are in the set, as ascending ranges."""
        at = bisect_left(self._lasts, first)
        while at < len(self._firsts) and self._firsts[at] <= last:
            yield max(first, self._firsts[at]), min(last, self._lasts[at])
            at += 1

    def next_missing(self, value: int) -> int:
        """The lowest integer from `value` on that is not in the set."""
        at = bisect_right(self._firsts, value) - 1
        return self._lasts[at] + 1 if at >= 0 and value <= self._lasts[at] else value

    def last_missing(self, value: int) -> int:
        """The highest integer up to `value` that is not in the set."""
        at = bisect_right(self._firsts, value) - 1
        return self._firsts[at] - 1 if at >= 0 and value <= self._lasts[at] else value
