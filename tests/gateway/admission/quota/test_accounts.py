"""Months, and what an account in memory says of one."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.quota import Accounts, Month
from tests.gateway.admission.quota.conftest import MONTH, NEXT_MONTH, NOW_S, Clock


def test_a_month_is_one_of_the_calendar() -> None:
    days = {"2026-11-06T21:20:00": 30, "2026-12-31T23:59:59": 31, "2027-01-01T00:00:00": 31, "2028-02-29T12:00:00": 29}
    for at, length in days.items():
        month = Month.at(int(datetime.fromisoformat(f"{at}+00:00").timestamp()))
        assert (month.name, month.ends - month.begins) == (at[:7], length * 86_400)
        assert datetime.fromtimestamp(month.begins, UTC) == datetime.fromisoformat(f"{at[:7]}-01T00:00:00+00:00")


@given(st.integers(0, 2**32))
def test_months_follow_each_other(now_s: int) -> None:
    month = Month.at(now_s)
    assert month.begins <= now_s < month.ends
    assert Month.at(month.begins) == Month.at(month.ends - 1) == month
    assert Month.at(month.ends).begins == month.ends


def test_what_is_used_is_what_the_better_informed_store_has_and_what_it_was_not_told(clock: Clock) -> None:
    account = Accounts(clock.ns, has_redis=True).get("o")
    account.accept(10, NOW_S)
    account.reserved += 3
    assert (account.used, account.recordable) == (13, 0), "Redis is told first"
    account.share(100, 10)
    assert (account.used, account.recordable) == (103, 10)
    account.record(200, 10, NOW_S)
    assert (account.used, account.recordable) == (203, 0)
    account.accept(5, NOW_S)
    account.reserved -= 3
    assert account.used == 205


def test_a_new_month_begins_anew_and_the_old_one_is_kept_until_it_is_told(clock: Clock) -> None:
    accounts = Accounts(clock.ns)
    old = accounts.get("o")
    old.accept(7, clock.s)
    clock.s += timedelta(days=30).total_seconds()
    new = accounts.get("o")
    assert (old.month.name, new.month.name, new.used) == (MONTH, NEXT_MONTH, 0)
    assert set(accounts.all()) == {old, new}
    old.record(7, 7, clock.s)
    assert list(accounts.all()) == [new]
    assert accounts.get("o") is new


def test_a_clock_turned_back_finds_the_old_month(clock: Clock) -> None:
    accounts = Accounts(clock.ns)
    old = accounts.get("o")
    old.accept(7, clock.s)
    clock.s += 31 * 86_400
    accounts.get("o")
    clock.s = NOW_S
    assert accounts.get("o") is old
