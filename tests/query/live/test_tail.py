"""Tails against a plain model: what ended in the last minute, once each, whenever it arrives."""

import random
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from query.live import (
    MAX_POSITION,
    ShownRows,
    TailPosition,
    decode_position,
    encode_position,
    next_position,
)
from query.settings import QuerySettings
from query.values import HOUR, MINUTE
from tests.query.conftest import MS, NOW, ONE_ENGINE, OTHER_PROJECT, SECOND, Explore, Loader, issues, record, span

STEP = 2 * SECOND


@dataclass(frozen=True)
class Sent:
    """A span or a log record; it arrives `delay` after its end."""

    number: int
    start: int
    duration: int
    delay: int
    kept: bool = True

    @property
    def end(self) -> int:
        return self.start + max(self.duration, 0)


def drawn(rng: random.Random, number: int, *, is_span: bool) -> Sent:
    duration = rng.choice([0, -SECOND, MS, 3 * SECOND, MINUTE, 14 * MINUTE, 20 * MINUTE]) if is_span else 0
    end = NOW - 10 * SECOND + rng.randrange(30 * SECOND)
    if rng.random() < 0.1:
        end = end // SECOND * SECOND
    delay = rng.choice([0, SECOND, 5 * SECOND, 20 * SECOND, 61 * SECOND])
    return Sent(number, end - max(duration, 0), duration, delay, rng.random() < 0.8)


class Tail:
    """A client that polls, and what it was shown."""

    def __init__(self, explore: Explore, loader: Loader, path: str) -> None:
        self._explore, self._loader, self._path = explore, loader, path
        self.next: str | None = None
        self.shown: list[int] = []
        self._truncated = False

    @property
    def is_of_spans(self) -> bool:
        return self._path == "/spans/live"

    def was_truncated(self) -> bool:
        return self._truncated

    async def store(self, *sent: Sent, project: int = 7) -> None:
        if self.is_of_spans:
            await self._loader.spans(
                *(
                    span(each.number, start=each.start, duration=each.duration, attributes={"kept": each.kept})
                    for each in sent
                ),
                project=project,
            )
        else:
            records = (record(at=each.end, body=each.number, attributes={"kept": each.kept}) for each in sent)
            await self._loader.logs(*records, project=project)

    async def poll(self, **query: Any) -> list[int]:
        answer = await self._explore.get(self._path, after=self.next, **query)
        assert answer.status == 200, answer.text
        body = answer.json
        assert len(body["next"]) <= MAX_POSITION
        self.next, self._truncated = body["next"], body["truncated"]
        is_span = self.is_of_spans
        times = [each["endTime" if is_span else "time"] for each in body["data"]]
        if all(not is_span or each["durationMs"] for each in body["data"]):  # a span that ends before it starts
            assert times == sorted(times, reverse=True)
        found = [int(each["spanId"], 16) if is_span else each["body"] for each in body["data"]]
        self.shown += found
        return found


@pytest.fixture(params=["/spans/live", "/logs/live"])
def tail(request: pytest.FixtureRequest, explore: Explore, loader: Loader) -> Tail:
    return Tail(explore, loader, request.param)


@ONE_ENGINE
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_each_row_comes_once_with_the_first_answer_after_its_arrival(
    seed: int, tail: Tail, moving_clock: list[int]
) -> None:
    rng, is_span = random.Random(seed), tail.is_of_spans
    sent = [drawn(rng, number, is_span=is_span) for number in range(1, 100)]
    waiting, missing = sorted(sent, key=lambda each: each.end + each.delay), list[Sent]()
    await tail.store(*(Sent(each.number + 1_000, each.end, 0, 0) for each in sent), project=OTHER_PROJECT)
    for _ in range(40):
        now = moving_clock[0]
        arrived = [each for each in waiting if each.end + each.delay < now]
        waiting = [each for each in waiting if each not in arrived]
        if arrived:
            await tail.store(*arrived)
        missing += arrived
        found = await tail.poll(filters="kept:true", limit=200)
        expected = [
            each for each in missing if each.kept and now - MINUTE < each.end < now and each.start >= now - 15 * MINUTE
        ]
        assert sorted(found) == sorted(each.number for each in expected)
        assert not tail.was_truncated()
        missing = [each for each in missing if each not in expected]
        moving_clock[0] += STEP
    assert len(tail.shown) == len(set(tail.shown)) > 40


async def test_of_more_than_an_answer_shows_the_newest_come_and_that_is_said(
    tail: Tail, moving_clock: list[int]
) -> None:
    await tail.store(*(Sent(n, NOW - n * MS, 0, 0) for n in range(1, 11)))
    assert await tail.poll(limit=4) == [1, 2, 3, 4]
    assert not tail.was_truncated()  # nothing was shown before
    assert await tail.poll(limit=4) == []
    moving_clock[0] += STEP
    await tail.store(*(Sent(20 + n, NOW + SECOND - n * MS, 0, 0) for n in range(1, 6)))
    assert await tail.poll(limit=5) == [21, 22, 23, 24, 25]
    assert not tail.was_truncated()
    await tail.store(*(Sent(30 + n, NOW + SECOND - n * MS, 0, 0) for n in range(1, 6)))
    assert await tail.poll(limit=4) == [31, 32, 33, 34]
    assert tail.was_truncated()
    assert await tail.poll(limit=4) == []
    assert not tail.was_truncated()


async def test_rows_that_end_together_come_once_whatever_the_limit(tail: Tail, moving_clock: list[int]) -> None:
    await tail.store(*(Sent(n, NOW - SECOND, 0, 0) for n in range(1, 30)))
    shown = await tail.poll(limit=10)
    assert len(set(shown)) == 10
    await tail.store(*(Sent(n, NOW - SECOND, 0, 0) for n in range(30, 40)), Sent(50, NOW - MS, 0, 0))
    assert await tail.poll(limit=10) == [50]  # the others ended with those that were left out


async def test_what_is_dated_ahead_comes_when_its_time_has_come(tail: Tail, moving_clock: list[int]) -> None:
    await tail.store(Sent(1, NOW, 0, 0), Sent(2, NOW + 3 * SECOND, 0, 0))
    polls = []
    for _ in range(4):
        polls.append(await tail.poll())
        moving_clock[0] += STEP
    assert polls == [[], [1], [2], []]


async def test_a_client_that_was_away_is_told(tail: Tail, moving_clock: list[int]) -> None:
    await tail.poll()
    await tail.store(Sent(1, NOW + SECOND, 0, 0), Sent(2, NOW + 2 * MINUTE, 0, 0))
    moving_clock[0] += MINUTE
    assert await tail.poll() == [1]
    assert not tail.was_truncated()
    moving_clock[0] += MINUTE + SECOND
    assert await tail.poll() == [2]
    assert tail.was_truncated()


async def test_a_clock_that_goes_back_repeats_nothing(tail: Tail, moving_clock: list[int]) -> None:
    await tail.store(Sent(1, NOW - SECOND, 0, 0), Sent(2, NOW + SECOND, 0, 0))
    moving_clock[0] += STEP
    assert await tail.poll() == [2, 1]
    moving_clock[0] -= 10 * MINUTE
    assert await tail.poll() == []
    moving_clock[0] += 10 * MINUTE
    assert await tail.poll() == []


@ONE_ENGINE
async def test_a_busy_project_remembers_less_and_repeats_nothing(tail: Tail, moving_clock: list[int]) -> None:
    """Each row is a batch of its own: a position holds about a hundred."""
    number, stored = 0, list[int]()
    for _ in range(6):
        for _ in range(25):
            number += 1
            await tail.store(Sent(number, moving_clock[0] - 1 - number, 0, 0))
            stored.append(number)
        await tail.poll(limit=200)
        assert not tail.was_truncated()
        moving_clock[0] += STEP
    assert sorted(tail.shown) == stored


class TestFewBytes:
    """With answers of 64 KiB."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_page_bytes=2**16)

    async def test_large_rows_leave_others_out(self, explore: Explore, loader: Loader) -> None:
        records = (record(at=NOW - n * MS, body="x" * 20_000, severity=n) for n in range(1, 20))
        await loader.logs(*records)
        first = (await explore.get("/logs/live")).json
        assert [each["severityNumber"] for each in first["data"]] == [1, 2, 3]
        assert not first["truncated"]
        await loader.logs(record(at=NOW - 1, body="y" * 100_000))
        second = (await explore.get("/logs/live", after=first["next"])).json
        assert [len(each["body"]) for each in second["data"]] == [100_000]


class TestFewRows:
    """With as few rows read as may be."""

    async def test_only_the_newest_are_read(
        self, explore: Explore, loader: Loader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("query.live.MAX_READ_ROWS", 10)
        await loader.spans(
            span(1, start=NOW - 5 * MINUTE, duration=5 * MINUTE - SECOND),
            *(span(1 + n, start=NOW - n * SECOND, duration=1) for n in range(1, 11)),
        )
        answer = await explore.get("/spans/live")
        found = {int(each["spanId"], 16) for each in answer.json["data"]}
        assert found == set(range(2, 2 + len(found)))
        assert 5 <= len(found) <= 10, "the window may begin at a bucket boundary"
        assert not answer.json["truncated"], "the first answer promises nothing"
        assert (await explore.get("/spans/live", after=answer.json["next"])).json["truncated"]


HOSTILE = ["x", "!", "A" * MAX_POSITION, "gA", "é", "\0", encode_position(TailPosition(NOW, NOW, []))[:-1] + "~"]


async def test_positions_that_are_none_are_refused(explore: Explore) -> None:
    for path, after in product(("/spans/live", "/logs/live"), HOSTILE):
        assert issues(await explore.get(path, after=after)) == [("query.after", "invalid")], after


async def test_a_position_of_ones_own_making_harms_nobody(tail: Tail) -> None:
    await tail.store(Sent(1, NOW - SECOND, 0, 0), project=OTHER_PROJECT)
    for position in (
        TailPosition(0, 0, []),
        TailPosition(2**63 - 1, 2**63 - 1, []),
        TailPosition(NOW, NOW + HOUR, [ShownRows(2**63 - 1, [(2**64 - 1, [2**32 - 1, 0])])]),
        TailPosition(NOW, 0, [ShownRows(NOW, [(1, [0] * 1_000)])]),
    ):
        tail.next = encode_position(position)
        assert await tail.poll() == [], position


def test_positions_are_what_they_were() -> None:
    rng = random.Random(5)
    position: TailPosition | None = None
    remembered = dict[tuple[int, int], int]()
    floor = 0
    for answer in range(200):
        now = NOW + answer * STEP
        rows = [
            (now - rng.randrange(MINUTE), (rng.choice([2**64 - 1 - answer, rng.getrandbits(63)]), n))
            for n in range(rng.choice([0, 1, 30, 200]))
        ]
        rows = sorted((row for row in rows if row[0] > floor), reverse=True)
        position = next_position(position, now, max(floor, now - MINUTE), rows)
        text = encode_position(position)
        assert len(text) <= MAX_POSITION
        assert decode_position(text) == position
        remembered |= {row_id: end for end, row_id in rows}
        floor = position.floor_ns
        known = set(position.row_ids)
        assert known <= set(remembered)
        assert all(end <= floor or row_id in known for row_id, end in remembered.items())
