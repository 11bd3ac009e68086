"""The reads of the explore API as SQL, spelled for a layout: one project, one day."""

from typing import Final

from benchmarks.storage.layouts import RESOURCE_KEY, Layout, Signal, Spelling
from query.request.filters import Op

_FROM_NS: Final = 1_795_132_800_000_000_000  # 2026-11-20
_HOUR_NS: Final = 3_600 * 10**9


def _within(spelling: Spelling, from_ns: int, to_ns: int) -> str:
    column = spelling.time
    bounds = [f"{spelling.project} = 1"]
    if spelling.bucketed:
        bounds += [
            f"toStartOfFiveMinutes({column}) >= toStartOfFiveMinutes(fromUnixTimestamp64Nano({from_ns}, 'UTC'))",
            f"toStartOfFiveMinutes({column}) <= toStartOfFiveMinutes(fromUnixTimestamp64Nano({to_ns - 1}, 'UTC'))",
        ]
    bounds += [
        f"{column} >= fromUnixTimestamp64Nano({from_ns}, 'UTC')",
        f"{column} < fromUnixTimestamp64Nano({to_ns}, 'UTC')",
    ]
    return " AND ".join(bounds)


def reads(signal: Signal, layout: Layout, table: str, trace_id: str, order_id: str) -> dict[str, str]:
    """The statements by what they are, every layout's in the same order."""
    s = layout.spelling
    day = f"FROM {table} WHERE {_within(s, _FROM_NS, _FROM_NS + 24 * _HOUR_NS)}"
    hour = f"FROM {table} WHERE {_within(s, _FROM_NS, _FROM_NS + _HOUR_NS)}"
    half_hours = f"toStartOfInterval({s.time}, INTERVAL 30 MINUTE)"
    equal_tenant = s.matches("app.tenant", Op.EQ, "tenant-200")
    newest = f"ORDER BY {s.time} DESC LIMIT 50"
    common = {
        "list: newest 50": f"SELECT * {day} {newest}",
        "list: newest 50 of a value in 170": f"SELECT * {day} AND {equal_tenant} {newest}",
        "filter: a value in 170": f"SELECT count() {day} AND {equal_tenant}",
        "filter: an identifier": f"SELECT count() {day} AND {s.matches('app.order.id', Op.EQ, order_id)}",
        "filter: service": f"SELECT count() {day} AND {s.service} = 'svc-7'",
        "filter: resource": f"SELECT count() {day} AND {s.matches(RESOURCE_KEY, Op.EQ, 'node-7')}",
        "group: attribute and half hours": f"SELECT {s.text('app.tenant')} AS g, {half_hours} AS b, count() {day}"
        " GROUP BY g, b ORDER BY 3 DESC, g, b LIMIT 100",
        "group: resource": f"SELECT {s.resource(RESOURCE_KEY)} AS g, count() {day} GROUP BY g ORDER BY 2 DESC, g",
        "trace: all columns": f"SELECT * FROM {table} WHERE {s.project} = 1 AND {s.trace_id.format(id=trace_id)}",
    }
    if signal == "logs":
        return common | {
            "filter: number at least": f"SELECT count() {day} AND {s.matches('app.millis', Op.GTE, '5000')}",
            "filter: text contains": f"SELECT count() {day}"
            f" AND {s.matches('code.function.name', Op.CONTAINS, 'step_17')}",
        }
    return common | _of_spans(s, day, hour)


def _of_spans(s: Spelling, day: str, hour: str) -> dict[str, str]:
    p99, p95 = f"quantileExact(0.99)({s.duration})", f"quantileExact(0.95)({s.duration})"
    found = {
        "filter: a quarter, p99 by service": f"SELECT {s.service}, {p99} {day}"
        f" AND {s.matches('http.request.method', Op.EQ, 'POST')} GROUP BY 1 ORDER BY 1",
        "filter: number at least": f"SELECT count() {day} AND {s.matches('http.response.status_code', Op.GTE, '500')}",
        "filter: text contains": f"SELECT count() {day}"
        f" AND {s.matches('user_agent.original', Op.CONTAINS, 'Browser/117')}",
        "filter: key exists": f"SELECT count() {day} AND {s.matches('app.debug.reason', Op.EXISTS, '')}",
        "group: attribute, p95": f"SELECT {s.text('http.route')} AS g, count(), {p95} {day}"
        " GROUP BY g ORDER BY 2 DESC, g LIMIT 10",
        "group: sum of a number": f"SELECT {s.service}, sum({s.number('http.response.body.size')}) {day}"
        " GROUP BY 1 ORDER BY 1",
    }
    if s.pairs:
        pairs = f"ARRAY JOIN mapKeys({s.pairs}) AS k, mapValues({s.pairs}) AS v"
        found["compare: all pairs of an hour"] = (
            f"SELECT k, v, count() {hour.replace(' WHERE ', f' {pairs} WHERE ', 1)}"
            " GROUP BY k, v HAVING count() > 200 ORDER BY 3 DESC, k, v LIMIT 100"
        )
    return found
