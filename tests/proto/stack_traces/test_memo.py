"""What is kept of lines is bounded, and computed once while it is kept."""

from proto.stack_traces.memo import Memo


def length(key: object) -> int:
    return len(str(key))


def test_the_older_half_is_forgotten_unless_it_is_needed() -> None:
    computed: list[str] = []

    def compute(key: str) -> int:
        computed.append(key)
        return int(key)

    memo = Memo(compute, max_bytes=20_000, max_key_bytes=100)
    for number in range(1_000):
        assert memo[str(number)] == number
        assert memo["1"] == 1
    assert computed.count("1") == 1, "it was needed in each half"
    assert len(memo) < 20
    assert memo["0"] == 0
    assert computed.count("0") == 2


def test_long_keys_are_not_kept() -> None:
    memo = Memo(length, max_bytes=10_000, max_key_bytes=100)
    assert memo["x" * 1_000] == 1_000
    assert memo["x" * 1_000, "y"] == length(("x" * 1_000, "y"))
    assert not memo


def test_a_forgotten_key_is_computed_again() -> None:
    memo = Memo(length, max_bytes=10_000, max_key_bytes=100)
    assert memo["xy"] == 2
    memo.forget()
    assert not memo
    assert memo["xy"] == 2
