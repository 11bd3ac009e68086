"""What is kept of lines is bounded, and computed once while it is kept."""

import tracemalloc

import pytest

from proto.grouping.fingerprint import fingerprint, forget
from proto.stack_traces.frames import Memo

KEPT_BYTES = 54 * 2**20  # of all together


def length(key: object) -> int:
    return len(str(key))


def test_the_older_half_is_forgotten_unless_it_is_needed() -> None:
    computed: list[str] = []

    def compute(key: str) -> int:
        computed.append(key)
        return int(key)

    memo = Memo(compute, max_bytes=20_000, max_entry_bytes=1_000)
    for number in range(1_000):
        assert memo[str(number)] == number
        assert memo["1"] == 1
    assert computed.count("1") == 1, "it was needed in each half"
    assert len(memo) < 20
    assert memo["0"] == 0
    assert computed.count("0") == 2


def test_long_entries_are_not_kept() -> None:
    memo = Memo(length, max_bytes=10_000, max_entry_bytes=1_000)
    assert memo["x" * 1_000] == 1_000
    assert memo["x" * 1_000, "y"] == length(("x" * 1_000, "y"))
    assert len(memo) == 0
    repeated: Memo[str, str] = Memo(lambda key: key * 1_000, max_bytes=10_000, max_entry_bytes=1_000)
    assert repeated["x"] == "x" * 1_000
    assert len(repeated) == 0, "the value counts, too"


def test_a_forgotten_key_is_computed_again() -> None:
    memo = Memo(length, max_bytes=10_000, max_entry_bytes=1_000)
    assert memo["xy"] == 2
    memo.forget()
    assert not memo
    assert memo["xy"] == 2


@pytest.mark.long
def test_hostile_traces_fill_no_more_memory_than_is_counted() -> None:
    """Wrappers that share frames with causes, and lines of which each is another one."""
    forget()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(400):
        frames = "".join(f"\tat com.shop.A{number}x{line}{'y' * 200}.b(A.java:1)\n" for line in range(60))
        causes = "".join(f"Caused by: com.shop.E{cause}: m\n\t... 60 more\n" for cause in range(60))
        fingerprint(f"E{number}", "", f"E: m\n{frames}{causes}")
        fingerprint(f"E{number}", "", f"E: m\n{frames[:9_000]}".replace("\tat ", "\n").replace("(A.java:1)", "(0x1)"))
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept <= KEPT_BYTES
    forget()
