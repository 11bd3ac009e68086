"""What every endpoint asks the engine: times by which the sort key skips, and nothing of the engine's own clock."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.target import open_client, parse_url
from tests.query.conftest import HOUR, NOW, SECOND, Explore, Loader, record, span
from tests.query.test_defects import MINUTE, aggregated, compared

QUARTER: Final = 15 * MINUTE
NOON: Final = (NOW // (24 * HOUR) - 1) * 24 * HOUR + 12 * HOUR

Asked = list[tuple[str, dict[str, object]]]


class Recorded(ClickHouse):
    """Keeps what it is asked."""

    asked: Asked

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> Any:
        self.asked.append((sql, dict(parameters)))
        return await super().query(sql, parameters, limits=limits)


class TestWhatTheEngineIsAsked:
    """Every read of a quarter of an hour, out of half a day with ten spans and ten log records a second."""

    @pytest.fixture
    def explore_store(self, clickhouse_url: str, database: str) -> ClickHouse:
        store = Recorded(clickhouse_url, database=database, handles=2)
        store.asked = []
        return store

    @pytest.fixture
    async def asked(self, explore_store: Recorded, loader: Loader, clickhouse: ClickHouse, explore: Explore) -> Asked:
        for table, time in (("spans", "start_time"), ("logs", "time")):
            await clickhouse.command(
                f"INSERT INTO {table} (project_id, {time}, service_name, trace_id, span_id)"
                f" SELECT 7, fromUnixTimestamp64Nano(toInt64({NOON}) + toInt64(number) * 100000000, 'UTC'),"
                " toString(number % 5), toFixedString(leftPad(toString(number), 16, '0'), 16), '12345678'"
                " FROM numbers(400000)"
            )
        at = NOON + HOUR
        await loader.spans(span(1, trace=1, start=at, attributes={"k": 1, "host": 2}), resource={"host": 1})
        await loader.logs(record(trace=1, at=at))
        await self._ask(explore, at)
        return explore_store.asked

    async def _ask(self, explore: Explore, at: int) -> None:
        window: dict[str, Any] = {"from_": at, "to": at + QUARTER}
        for path in ("/spans", "/logs"):
            await explore.data(path, **window, filters="has:k", limit=1)
            first = (await explore.get(path, **window, limit=1)).json
            await explore.data(path, **window, limit=1, cursor=first["nextCursor"])
        for path in (f"/spans/{1:016x}", "/waterfall", "/logs"):
            assert (await explore.get(f"/traces/{1:032x}{path}")).status == 200
        await explore.data("/attributes", from_=at + SECOND, to=at + QUARTER)
        for fn, field in (("count", None), ("p95", "durationMs"), ("avg", "k"), ("count_unique", "host")):
            for group in (None, "k", "serviceName"):
                await aggregated(explore, fn, field=field, groupBy=group, **window)
        spike, baseline = {"from": at, "to": at + QUARTER // 3}, {"from": at + QUARTER // 3, "to": at + QUARTER}
        await compared(explore, spike=spike, baseline=baseline)
        await compared(explore, spike=spike, baseline=baseline, keys=["k", "serviceName"])

    async def test_times_are_found_by_the_sort_key_and_none_is_the_engines_own(
        self, asked: Asked, clickhouse_url: str, database: str
    ) -> None:
        engine, looked_at = open_client(parse_url(clickhouse_url, database), 30), 0
        own = re.compile(r"\b(now|now64|today|yesterday|toTimeZone|timezone|toStartOfDay|toDate)\s*\(", re.IGNORECASE)
        try:
            for sql, parameters in asked:
                assert not own.search(sql)
                for call in re.findall(r"(?:toDateTime|fromUnixTimestamp64Nano)\(\{p\d+:\w+\}[^)]*\)", sql):
                    assert call.endswith(", 'UTC')"), call
                if not re.search(r"FROM (spans|logs)\b", sql):
                    continue
                plan = "\n".join(line for (line,) in engine.query(f"EXPLAIN indexes = 1 {sql}", parameters).result_rows)
                reads = re.findall(r"PrimaryKey.*?Granules: (\d+)/(\d+)", plan, re.DOTALL)
                large = [(int(read), int(of)) for read, of in reads if int(of) >= 40]
                assert large, sql
                assert all(read <= 6 for read, _ in large), sql
                looked_at += 1
        finally:
            engine.close()
        assert looked_at > 20


async def test_days_are_of_24_hours_and_begin_at_midnight_in_utc(explore: Explore) -> None:
    """Over both changes of the clocks of a year, in Europe and in America."""
    for change in ("2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"):
        day = datetime.fromisoformat(f"{change}T00:00:00+00:00")
        window = {"from_": str(day.date() - timedelta(days=1)), "to": str(day.date() + timedelta(days=2))}
        for minutes in (60, 180, 1440):
            answer = await aggregated(explore, "count", intervalMinutes=minutes, **window)
            first = day - timedelta(days=1)
            assert [point["bucket"] for point in answer["series"][0]["points"]] == [
                f"{first + timedelta(minutes=minutes * n):%Y-%m-%dT%H:%M:%SZ}" for n in range(72 * 60 // minutes)
            ]
