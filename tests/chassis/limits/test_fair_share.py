"""How much of something shared one may hold, and that there is always room for who holds nothing."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from chassis.limits.fairness import FairShare

MOST = 120


def take_all(shares: FairShare[str], *holders: str) -> dict[str, int]:
    """Each in turn takes one after the other until all are refused; what each got."""
    got = dict.fromkeys(holders, 0)
    going = list(holders)
    while going:
        for holder in tuple(going):
            if shares.take(holder, 1):
                got[holder] += 1
            else:
                going.remove(holder)
    return got


def test_each_may_hold_as_much_as_is_left_free() -> None:
    for holders, each in (("a", 60), ("ab", 40), ("abc", 30), ("abcde", 20)):
        assert take_all(FairShare(MOST), *holders) == dict.fromkeys(holders, each)


def test_who_holds_nothing_may_take_what_is_left_to_the_last_bit() -> None:
    shares: FairShare[str] = FairShare(MOST)
    take_all(shares, "a")
    assert shares.take("b", 60)
    assert not shares.take("c", 1)
    shares.change("a", -1)
    assert not shares.take("b", 1)
    assert shares.take("c", 1)


def test_while_nobody_holds_anything_any_amount_may_be_taken_and_less_always() -> None:
    shares: FairShare[str] = FairShare(MOST)
    taken = [
        shares.take(holder, amount) for holder, amount in (("a", 1_000), ("b", 1), ("a", 1), ("a", -500), ("a", 0))
    ]
    assert (taken, shares.taken) == ([True, False, False, True, True], 500)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 50)), max_size=100), st.randoms())
def test_no_more_is_taken_than_there_is_and_nothing_is_left_over(acts: list[tuple[str, int]], random: Random) -> None:
    shares: FairShare[str] = FairShare(MOST)
    held: list[tuple[str, int]] = []
    for holder, amount in acts:
        alone = not held
        if shares.take(holder, amount):
            held.append((holder, amount))
            assert alone or shares.taken <= MOST
        assert shares.taken == sum(amount for _, amount in held)
        if held and amount % 3 == 0:
            given_back = held.pop(random.randrange(len(held)))
            shares.change(given_back[0], -given_back[1])
    for holder, amount in held:
        shares.change(holder, -amount)
    assert shares.taken == 0
    assert take_all(shares, "a", "e") == {"a": MOST // 3, "e": MOST // 3}
