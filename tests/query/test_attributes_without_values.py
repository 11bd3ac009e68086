"""An attribute that was sent without a value: it is present, and its text is `null`, as that of a boolean is `true`."""

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.query.conftest import Explore, Loader, record, span

FINDS = [
    ("has:v", {"array", "empty", "none", "of the resource", "text"}),
    ("!has:v", {"absent"}),
    ("v:null", {"none", "of the resource", "text"}),
    ("-v:null", {"absent", "array", "empty"}),
    ("v:[null,x]", {"none", "of the resource", "text"}),
    ('v:""', {"empty"}),
    ("v:>=0", set()),
    ("v:nul*", {"none", "of the resource", "text"}),
    ("resource.v:null", {"of the resource"}),
]


async def load(loader: Loader) -> None:
    none, array = span(1, name="none"), span(2, name="array")
    none.attributes.append(KeyValue(key="v"))
    pair = KeyValue(key="v")
    pair.value.array_value.values.append(AnyValue())
    array.attributes.append(pair)
    texts = (span(3, name="empty", attributes={"v": ""}), span(4, name="text", attributes={"v": "null"}))
    await loader.spans(none, array, *texts, span(5, name="absent"))
    await loader.spans(span(6, name="of the resource"), resource=Resource(attributes=[KeyValue(key="v")]))
    log = record(body="without")
    log.attributes.append(KeyValue(key="v"))
    await loader.logs(log, record(body="absent"))


async def test_filters_groups_and_keys_find_it(explore: Explore, loader: Loader) -> None:
    await load(loader)
    for text, names in FINDS:
        answer = await explore.get("/spans", filters=text)
        assert {row["name"] for row in answer.json["data"]} == names, text
    (row,) = (await explore.get("/spans", filters="name:none")).json["data"]
    assert row["attributes"]["v"] is None
    body = {"fn": "count", "groupBy": "v", "hours": 1}
    groups = (await explore.post("/spans/aggregate", body)).json["groups"]
    assert [(each["group"], each["count"]) for each in groups] == [("null", 3), ("", 1), ("[null]", 1), (None, 1)]
    figures = {"figures": [{"fn": "count"}, {"fn": "count_unique", "field": "v"}], "groupBy": ["v"], "hours": 1}
    first, *_ = (await explore.post("/spans/figures", figures)).json["groups"]
    assert (first["group"], first["values"]) == (["null"], [3, 1])
    keys = {each["key"]: each for each in (await explore.get("/attributes", hours=1)).json["data"]}
    assert keys["v"] == {"key": "v", "spans": 5, "numeric": False}
    values = (await explore.get("/attributes/values", key="v", hours=1)).json["data"]
    assert values[0] == {"value": "null", "count": 3}


async def test_in_log_records_likewise(explore: Explore, loader: Loader) -> None:
    """A body that is missing stays absent."""
    await load(loader)
    for text, bodies in (("v:null", ["without"]), ("has:v", ["without"]), ("!has:v", ["absent"]), ("!has:body", [])):
        answer = await explore.get("/logs", filters=text)
        assert [row["body"] for row in answer.json["data"]] == bodies, text
