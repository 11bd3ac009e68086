"""Ids sort in the order in which a process makes them."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chassis.auth.tables import new_id


def test_ids_of_one_millisecond_ascend(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr("chassis.auth.tables.time.time_ns", lambda: now)
    ids = [new_id("act") for _ in range(10_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_ids_ascend_though_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_id("act")
    monkeypatch.setattr("chassis.auth.tables.time.time_ns", lambda: 1)
    assert before < new_id("act") < new_id("act")


def test_threads_share_no_id() -> None:
    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(lambda _: new_id("act"), range(5_000)))
    assert len(set(ids)) == 5_000
