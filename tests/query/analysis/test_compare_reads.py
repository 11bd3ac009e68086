"""How a comparison reads: what lies outside of its windows is skipped, and threads make no difference."""

import time

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.target import open_client, parse_url
from query import sql
from query.statements import (
    Cohort,
    CohortSize,
    FieldPairs,
    FrequentPairs,
    KeyCounts,
    KeyPairs,
    ListPairs,
    Statement,
    Window,
)
from query.values import HOUR, MINUTE
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


async def test_windows_are_found_by_their_buckets_and_threads_read_the_same(
    clickhouse: ClickHouse, clickhouse_url: str, database: str
) -> None:
    """Ten spans a second for half a day, each with an attribute of 1000 values and one of nearly as many as there are
    spans; both pieces of the baseline are found.
    """
    await clickhouse.command(
        "INSERT INTO spans (project_id, start_time, service_name, name, attributes, attribute_types, resource)"
        f" SELECT 7, fromUnixTimestamp64Nano(toInt64({NOON}) + toInt64(number) * 100000000, 'UTC'),"
        " toString(number % 5), toString(number % 7),"
        " map('k', toString(sipHash64(number) % 1000), 'id', toString(sipHash64(number))),"
        " '\\x01k\\x02s\\x01id\\x02s\\x01', concat('\\x01host\\x02s', toString(number % 50), '\\x01')"
        " FROM numbers(400000)"
    )
    engine = open_client(parse_url(clickhouse_url, database), 30)
    try:
        for read, statement in READS.items():
            query = sql.emit(statement)
            left, of = granules(engine, query.sql, query.parameters)
            assert (of >= 40, left <= 8) == (True, True), read
    finally:
        engine.close()
    for read in ("fields", "lists", "keys"):
        query = sql.emit(READS[read])
        limits = [QueryLimits(max_threads=threads) for threads in (1, 2, 7)]
        first, *others = [await clickhouse.query(query.sql, query.parameters, limits=each) for each in limits]
        assert first
        assert others == [first, first], read
