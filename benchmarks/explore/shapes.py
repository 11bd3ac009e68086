"""What is asked: for each shape the request of the endpoint, and what of its answer and of the rows of the statements
of the same name must be equal. `Places` fill the statements' `{places}` too.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from benchmarks.explore.served import Request

Places = Mapping[str, Any]
Facts = dict[str, object]
Row = Sequence[Any]

PAGE: Final = 50
LONG: Final = (20, 1_000, 10_000)


class Shape(NamedTuple):
    """`group` is the endpoint. Asked of windows of time, or of traces of `trace` spans."""

    name: str
    group: str
    request: Callable[[Places], Request]
    of_answer: Callable[[Any], Facts]
    of_rows: Callable[[Sequence[Row]], Facts]
    trace: int = 0
    statement: str = ""  # where it is not the name

    @property
    def sql(self) -> str:
        return self.statement or self.name


def shapes() -> list[Shape]:
    """All of them, in the order of the table."""
    return [
        Shape("attributes", "attributes", _attributes, _keys, _key_rows),
        NEWEST,
        Shape("list second page", "spans", _second_page, _page, _page_rows),
        _list("list common", ("app.flag", "eq", "blue")),
        _list("list rare", ("app.tenant", "eq", "tenant-400")),
        _list("list absent value", ("enduser.id", "eq", "nobody")),
        _list("list absent key", ("app.nothing", "eq", "x")),
        _list("list identifier", ("app.order.id", "eq", "{order}")),
        _list("list duration", ("durationMs", "gt", "300")),
        _list("list contains", ("user_agent.original", "contains", "Browser/117")),
        _list("list neq", ("app.flag", "neq", "blue")),
        _list("list resource", ("host.name", "eq", "node-7")),
        Shape("list trace", "spans", _of_trace, _page, _page_rows, trace=20),
        _aggregate("aggregate count", _count_rows, fn="count"),
        _aggregate("aggregate p95 by service", _group_rows, fn="p95", field="durationMs", groupBy="serviceName"),
        _aggregate("aggregate p99 by attribute", _group_rows, fn="p99", field="durationMs", groupBy="http.route"),
        _aggregate("aggregate count_unique", _unique_rows, fn="count_unique", field="enduser.id"),
        _aggregate("aggregate avg", _group_rows, fn="avg", field="http.response.body.size", groupBy="serviceName"),
        _aggregate(
            "aggregate filtered",
            _group_rows,
            fn="count",
            groupBy="serviceName",
            filters=[{"key": "app.flag", "op": "eq", "value": "blue"}],
        ),
        _aggregate("aggregate series", _group_rows, fn="count", groupBy="app.queue", intervalMinutes=5),
        Shape("figures by service", "figures", _red, _figure_groups, _group_rows),
        Shape("heatmap", "heatmap", _heatmap, _drawn, _drawn_rows),
        Shape("compare", "compare", _compare, _pairs, _pair_rows),
        *(_waterfall(size) for size in LONG),
        Shape("errors", "errors", _errors, _error_groups, _error_rows),
    ]


def _window(places: Places) -> dict[str, str]:
    return {"from": str(places["from"]), "to": str(places["to"])}


def _attributes(places: Places) -> Request:
    return Request(f"/attributes?{urlencode(_window(places))}")


def _keys(answer: Any) -> Facts:
    return {each["key"]: each["spans"] for each in answer["data"]}


def _key_rows(rows: Sequence[Row]) -> Facts:
    return {row[0]: row[1] for row in rows}


def _list(name: str, asked: tuple[str, str, str] | None) -> Shape:
    def request(places: Places) -> Request:
        query = _window(places)
        if asked is not None:
            key, op, value = asked
            one = {"key": key, "op": op, "value": value.replace("{order}", str(places["order"]))}
            query["filters"] = json.dumps([one])
        return Request(f"/spans?{urlencode(query)}")

    return Shape(name, "spans", request, _page, _page_rows)


def _second_page(places: Places) -> Request:
    return Request(f"/spans?{urlencode(_window(places) | {'cursor': places['cursor']})}")


def _of_trace(places: Places) -> Request:
    return Request(f"/spans?{urlencode({'traceId': places['trace']})}")


def _page(answer: Any) -> Facts:
    return {str(place): row["spanId"] for place, row in enumerate(answer["data"])}


def _page_rows(rows: Sequence[Row]) -> Facts:
    return {str(place): row[0].lower() for place, row in enumerate(rows[:PAGE])}


def _aggregate(name: str, of_rows: Callable[[Sequence[Row]], Facts], **body: object) -> Shape:
    def request(places: Places) -> Request:
        asked = {"intervalMinutes": places["minutes"], **_window(places), **body}
        return Request("/spans/aggregate", json.dumps(asked).encode())

    return Shape(name, "aggregate", request, _groups, of_rows)


def _groups(answer: Any) -> Facts:
    if answer["fn"] == "count_unique":
        return {"distinct": answer["groups"][0]["value"]}
    return {str(each["group"]): each["count"] for each in answer["groups"]}


def _count_rows(rows: Sequence[Row]) -> Facts:
    return {"None": sum(row[1] for row in rows)}


def _group_rows(rows: Sequence[Row]) -> Facts:
    return {str(row[0]): row[2] for row in rows if row[-1] == 1}


def _unique_rows(rows: Sequence[Row]) -> Facts:
    ((_, _, distinct, _),) = [row for row in rows if row[-1] == 1]
    return {"distinct": distinct}


def _red(places: Places) -> Request:
    failed = [{"key": "statusCode", "op": "eq", "value": "ERROR"}]
    figures: list[dict[str, object]] = [{"fn": "count"}, {"fn": "count", "filters": failed}]
    figures += [{"fn": fn, "field": "durationMs"} for fn in ("p50", "p95", "p99")]
    asked = {"figures": figures, "groupBy": ["serviceName"], "intervalSeconds": 60 * places["minutes"], "limit": 100}
    return Request("/spans/figures", json.dumps(asked | _window(places)).encode())


def _figure_groups(answer: Any) -> Facts:
    return {str(each["group"][0]): each["count"] for each in answer["groups"]}


def _heatmap(places: Places) -> Request:
    return Request("/spans/heatmap", json.dumps(_window(places)).encode())


def _drawn(answer: Any) -> Facts:
    return {"spans": answer["total"]}


def _drawn_rows(rows: Sequence[Row]) -> Facts:
    return {"spans": sum(row[2] for row in rows)}


def _compare(places: Places) -> Request:
    spike = {"from": str(places["spike"]), "to": str(places["to"])}
    baseline = {"from": str(places["from"]), "to": str(places["spike"])}
    return Request("/spans/compare", json.dumps({"spike": spike, "baseline": baseline}).encode())


def _pairs(answer: Any) -> Facts:
    return {
        f"{each['key']}={each['value']}": (each["spikeCount"], each["baselineCount"]) for each in answer["attributes"]
    }


def _pair_rows(rows: Sequence[Row]) -> Facts:
    return {f"{key}={value}": (spike, baseline) for key, value, spike, baseline in rows}


def _waterfall(size: int) -> Shape:
    def request(places: Places) -> Request:
        return Request(f"/traces/{places['trace']}/waterfall")

    def of_rows(rows: Sequence[Row]) -> Facts:
        return {"spans": len(rows)}

    return Shape(f"waterfall {size}", "waterfall", request, _spans, of_rows, trace=size, statement="waterfall")


def _spans(answer: Any) -> Facts:
    return {"spans": answer["spanCount"]}


def _errors(places: Places) -> Request:
    return Request(f"/errors?{urlencode(_window(places))}")


def _error_groups(answer: Any) -> Facts:
    return {f"{each['type']}: {each['message']}": each["count"] for each in answer["data"]}


def _error_rows(rows: Sequence[Row]) -> Facts:
    return {f"{kind}: {message}": count for kind, message, count, *_ in rows}


NEWEST: Final = _list("list newest", None)
