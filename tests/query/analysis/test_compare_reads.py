"""How a comparison reads: what lies outside of its windows is skipped, and threads make no difference."""

import time

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.target import open_client, parse_url
from query import sql
from query.statements import Cohort, CohortSize, FieldPairs, FrequentPairs, KeyCounts, KeyPairs, ListPairs, Statement
from query.statements.window import Window
from query.timestamps import HOUR, MINUTE
from tests.query.test_sql import granules

NOON = (time.time_ns() // (24 * HOUR) - 1) * 24 * HOUR + 12 * HOUR
# A baseline around its spike: what lies between its two pieces is not its own.
COHORT = Cohort(
    (Window(NOON + HOUR, NOON + HOUR + 10 * MINUTE), Window(NOON + 9 * HOUR, NOON + 9 * HOUR + 10 * MINUTE))
)
READS: dict[str, Statement] = {
    "size": CohortSize(project_id=7, cohort=COHORT),
    "fields": FieldPairs(project_id=7, cohort=COHORT, selection=FrequentPairs(5)),
    "lists": ListPairs(project_id=7, cohort=COHORT, selection=FrequentPairs(5)),
    "keys": KeyPairs(project_id=7, cohort=COHORT, sources=("k",), min_spans=5),
    "counts": KeyCounts(project_id=7, cohort=COHORT, sources=("k",), hashes=(1,)),
}


@pytest.fixture
async def half_a_day(clickhouse: ClickHouse) -> None:
    """Ten spans a second, each with an attribute of 1000 values and one of nearly as many as there are spans."""
    await clickhouse.command(
        "INSERT INTO spans (project_id, start_time, service_name, name, attributes, attribute_types, resource)"
        f" SELECT 7, fromUnixTimestamp64Nano(toInt64({NOON}) + toInt64(number) * 100000000, 'UTC'),"
        " toString(number % 5), toString(number % 7),"
        " map('k', toString(sipHash64(number) % 1000), 'id', toString(sipHash64(number))),"
        " '\\x01k\\x02s\\x01id\\x02s\\x01', concat('\\x01host\\x02s', toString(number % 50), '\\x01')"
        " FROM numbers(400000)"
    )


@pytest.mark.parametrize("read", READS)
async def test_both_pieces_of_a_baseline_are_found_by_their_buckets(
    read: str, half_a_day: None, clickhouse_url: str, database: str
) -> None:
    query = sql.emit(READS[read])
    engine = open_client(parse_url(clickhouse_url, database), 30)
    try:
        left, of = granules(engine, query.sql, query.parameters)
    finally:
        engine.close()
    assert of >= 40
    assert left <= 8


@pytest.mark.parametrize("read", ["fields", "lists", "keys"])
async def test_any_number_of_threads_reads_the_same(read: str, half_a_day: None, clickhouse: ClickHouse) -> None:
    query = sql.emit(READS[read])
    limits = [QueryLimits(max_threads=threads) for threads in (1, 2, 7)]
    first, *others = [await clickhouse.query(query.sql, query.parameters, limits=each) for each in limits]
    assert first
    assert others == [first, first]
