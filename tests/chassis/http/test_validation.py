"""One issue per offending field, bounded, whatever the body."""

import json
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from chassis.errors import BadRequest, Issue
from chassis.http.validation import (
    MAX_EXPLAINED_BYTES,
    MAX_ISSUES,
    Issues,
    bounded_int,
    bounded_text,
    decode_body,
    decode_json,
    decode_with_placeholders,
)


class Filter(msgspec.Struct, forbid_unknown_fields=True):
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]
    value: str | None = None


class Window(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    from_time: str
    to_time: str


class Body(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    hours: Annotated[int, msgspec.Meta(ge=1, le=720)]
    spike: Window
    slug: Annotated[str, msgspec.Meta(pattern=r"^[a-z]+(?!\n)$", description="Must be letters.")] = "a"
    group_by: str | None = None
    filters: Annotated[list[Filter], msgspec.Meta(max_length=3)] | None = None
    labels: dict[str, int] = {}
    pair: tuple[int, str] | None = None
    fn: Annotated[str, msgspec.Meta()] = "count"


GOOD: dict[str, Any] = {"hours": 1, "spike": {"fromTime": "a", "toTime": "b"}}


def issues_of(body: object, raw: bytes | None = None) -> list[tuple[str, str]]:
    with pytest.raises(BadRequest) as caught:
        decode_body(Body, raw if raw is not None else json.dumps(body).encode())
    assert caught.value.message == "The request body is not valid."
    assert caught.value.details is not None
    return [(issue.path, issue.code) for issue in caught.value.details]


def test_a_good_body_is_decoded() -> None:
    body = decode_body(Body, json.dumps(GOOD | {"filters": [{"key": "a"}], "labels": {"x": 1}}).encode())
    assert body.filters == [Filter("a")]
    assert body.labels == {"x": 1}


def test_a_repeated_key_is_named_wherever_it_is() -> None:
    """Also in a part that the type does not look into, and of other spelling; beside other faults, too."""
    whole = json.dumps(GOOD)[:-1].encode()
    assert issues_of(None, whole + b', "slug": "a", "sl\\u0075g": "b"}') == [("body.slug", "repeated")]
    assert issues_of(None, whole + b', "labels": {"x": 1, "y": 2, "x": 1, "x": 1}}') == [("body.labels.x", "repeated")]
    assert issues_of(
        None, whole + b', "filters": [{"key": "a"}, {"key": "b", "key": 1}], "slug": "a", "slug": "A"}'
    ) == [
        ("body.slug", "format"),
        ("body.filters[1].key", "type"),
        ("body.filters[1].key", "repeated"),
        ("body.slug", "repeated"),
    ]


def test_a_repeated_key_of_an_ignored_part() -> None:
    class Ignoring(msgspec.Struct):
        name: str

    issues = Issues()
    raw = b'{"name": "x", "more": [1, {"deep": {"a": 1, "a": 2}}]}'
    assert decode_json(Ignoring, raw, "body", issues) is None
    assert [(issue.path, issue.code) for issue in issues] == [("body.more[1].deep.a", "repeated")]
    assert decode_json(Ignoring, raw, "body", Issues(), unique_keys=False) == Ignoring("x")


def test_repeated_keys_are_as_many_issues_as_others() -> None:
    raw = b"{" + b",".join(b'"k%d": 1, "k%d": 1' % (number, number) for number in range(1_000)) + b"}"
    issues = Issues()
    decode_json(dict[str, int], raw, "body", issues)
    assert len(issues) == MAX_ISSUES


@pytest.mark.parametrize(
    ("change", "issues"),
    [
        ({"hours": 0}, [("body.hours", "too_small")]),
        ({"hours": 721}, [("body.hours", "too_large")]),
        ({"hours": "1"}, [("body.hours", "type")]),
        ({"hours": True}, [("body.hours", "type")]),
        ({"hours": None}, [("body.hours", "type")]),
        ({"slug": "A"}, [("body.slug", "format")]),
        ({"slug": "a\n"}, [("body.slug", "format")]),
        ({"groupBy": 1}, [("body.groupBy", "type")]),
        ({"group_by": "x"}, [("body.group_by", "unknown_field")]),
        ({"spike": {}}, [("body.spike.fromTime", "missing"), ("body.spike.toTime", "missing")]),
        ({"spike": []}, [("body.spike", "type")]),
        ({"filters": [{"key": ""}, {"key": "a"}, {"key": "abcdef", "x": 1}]},
         [("body.filters[0].key", "too_short"), ("body.filters[2].key", "too_long"),
          ("body.filters[2].x", "unknown_field")]),
        ({"filters": [{"key": "a"}] * 4}, [("body.filters", "too_long")]),
        ({"filters": {}}, [("body.filters", "type")]),
        ({"labels": {"x": "1", "y": 2, "z": None}}, [("body.labels.x", "type"), ("body.labels.z", "type")]),
        ({"pair": ["a", 1]}, [("body.pair[0]", "type"), ("body.pair[1]", "type")]),
        ({"pair": [1]}, [("body.pair", "wrong_length")]),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_path(change: dict[str, Any], issues: list[tuple[str, str]]) -> None:
    assert issues_of(GOOD | change) == issues


def test_every_offending_field_has_its_own_issue() -> None:
    found = issues_of({"hours": 0, "slug": "?", "spike": {"fromTime": 1, "extra": 2}, "nope": 1})
    of_spike = [("spike.extra", "unknown_field"), ("spike.fromTime", "type"), ("spike.toTime", "missing")]
    others = [("hours", "too_small"), ("nope", "unknown_field"), ("slug", "format")]
    assert sorted(found) == [(f"body.{path}", code) for path, code in (*others, *of_spike)]


def test_a_format_is_explained_in_words() -> None:
    with pytest.raises(BadRequest) as caught:
        decode_body(Body, json.dumps(GOOD | {"slug": "?"}).encode())
    assert [issue.message for issue in caught.value.details or ()] == ["Must be letters."]


class Shade(StrEnum):
    LIGHT = "light"
    DARK = "dark"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Mark(Enum):
    YES = "y"


class Enumerated(msgspec.Struct, forbid_unknown_fields=True):
    shade: Shade
    theme: Annotated[Literal["system", "none"] | msgspec.UnsetType, msgspec.Meta(description="Words.")] = msgspec.UNSET
    other: Mark | None = None
    size: Size | None = None
    shades: list[Shade] = []
    by_shade: dict[Shade, int] = {}
    loose: Shade | int | None = None


def test_a_name_that_is_none_of_an_enum_is_told_them() -> None:
    """Also within lists, as a key, and where it is missing."""
    for field, names in {"shade": "light, dark", "theme": "system, none", "other": "y", "size": "1, 2"}.items():
        values: list[object] = ["grey", "Light", "", "a" * 1_000, 5, [], {}, True]
        for value in values if field in ("other", "size") else [*values, None]:
            (issue,) = faults_of({"shade": "dark", field: value})
            assert (issue.path, issue.message) == (f"body.{field}", f"Must be one of {names}.")
            assert issue.code in ("not_allowed", "type")
    found = faults_of({"shade": "dark", "shades": ["light", "x"], "by_shade": {"y": 1}})
    assert [(issue.path, issue.message) for issue in found] == [
        ("body.shades[1]", "Must be one of light, dark."),
        ("body.by_shade.y", "Must be one of light, dark."),
    ]
    assert faults_of({}) == [Issue("body.shade", "Is required. Must be one of light, dark.", "missing")]


def test_what_takes_more_than_names_is_told_what_it_is() -> None:
    (issue,) = faults_of({"shade": "dark", "loose": []})
    assert (issue.path, issue.code) == ("body.loose", "type")
    assert "one of" not in issue.message


def faults_of(body: object) -> list[Issue]:
    issues = Issues()
    assert decode_json(Enumerated, json.dumps(body).encode(), "body", issues) is None
    return list(issues)


def test_what_is_not_json_is_malformed_and_json_of_another_kind_a_fault_of_the_body() -> None:
    no_json = (b"", b"{", b"nope", b'{"hours":1}}', b"\xff", b'{"hours": NaN}', b'"\\ud800"', b"[" * 100_000, b'"\xff"')
    assert [issues_of(None, raw) for raw in no_json] == [[("body", "malformed")]] * len(no_json)
    for raw in (b"[]", b"null", b"1", b'"x"'):
        assert issues_of(None, raw) == [("body", "type")]


def test_what_only_the_typed_decoder_minds_is_reported_at_the_body() -> None:
    assert issues_of(None, b'{"hours":1.0,"spike":{"fromTime":"a","toTime":"b"}}') in (
        [("body.hours", "type")],
        [("body", "type")],
    )


def test_a_million_faults_make_a_short_answer() -> None:
    found = issues_of(GOOD | {"filters": [{}] * 10_000})
    assert found == [(f"body.filters[{n}].key", "missing") for n in range(MAX_ISSUES)]
    assert len(issues_of(GOOD | {f"unknown{n}": 1 for n in range(10_000)})) == MAX_ISSUES


def test_of_a_body_that_is_very_large_the_first_fault_is_named() -> None:
    """The others would be looked for in values that take a hundred megabytes."""
    window = {"fromTime": "x" * MAX_EXPLAINED_BYTES, "toTime": 1}
    assert issues_of({"hours": 0, "spike": window}) == [("body.hours", "too_small")]
    assert issues_of({"hours": 1, "spike": window, "fn": 1}) == [("body.spike.toTime", "type")]
    assert issues_of({**GOOD, "more": "x" * MAX_EXPLAINED_BYTES}) == [("body", "unknown_field")]


class Cat(msgspec.Struct, tag="cat", tag_field="kind", forbid_unknown_fields=True):
    lives: int


class Dog(msgspec.Struct, tag="dog", tag_field="kind", forbid_unknown_fields=True):
    name: str


@pytest.mark.parametrize(
    ("value", "path", "code", "message"),
    [
        ({"kind": "cat", "lives": "9"}, "body[0].lives", "type", "Expected integer, got string."),
        ({"kind": "dog", "lives": 9}, "body[0].name", "missing", "Is required."),
        ({"kind": "dog", "name": "x", "age": 1}, "body[0].age", "unknown_field", "Is not a known field."),
        ({"kind": "cow"}, "body[0].kind", "not_allowed", "Must be one of cat, dog."),
        ({"kind": []}, "body[0].kind", "not_allowed", "Must be one of cat, dog."),
        ({"lives": 9}, "body[0].kind", "missing", "Is required. Must be one of cat, dog."),
        (9, "body[0]", "type", "Expected object, got integer."),
    ],
    ids=str,
)
def test_one_of_several_kinds_of_objects_is_explained_by_its_kind(
    value: object, path: str, code: str, message: str
) -> None:
    issues = Issues()
    assert decode_json(list[Cat | Dog], json.dumps([value]).encode(), "body", issues) is None
    assert Issue(path, message, code) in list(issues)


def test_long_names_and_messages_are_cut() -> None:
    with pytest.raises(BadRequest) as caught:
        decode_body(Body, json.dumps(GOOD | {"x" * 100_000: 1, "labels": {"y" * 100_000: "z"}}).encode())
    assert caught.value.details is not None
    assert all(len(issue.path) <= 200 and len(issue.message) <= 500 for issue in caught.value.details)


def assert_decoded_or_explained(raw: bytes) -> None:
    issues = Issues()
    assert (decode_json(Body, raw, "body", issues) is None) is (len(issues) > 0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["hours", "spike", "filters", "key", "pair", "labels", "x"]), inner, max_size=5
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_a_body_or_has_issues(value: object) -> None:
    assert_decoded_or_explained(json.dumps(value).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_body_or_has_issues(raw: bytes) -> None:
    assert_decoded_or_explained(raw)


def test_null_is_a_body_where_the_type_admits_it() -> None:
    assert decode_body(Filter | None, b"null") is None  # type: ignore[arg-type]


def test_json_inside_a_query_has_the_path_of_its_parameter() -> None:
    issues = Issues()
    assert decode_json(list[Filter], b'[{"key":1}]', "query.filters", issues) is None
    with pytest.raises(BadRequest) as caught:
        issues.raise_if_any()
    assert caught.value.details is not None
    assert [(issue.path, issue.code) for issue in caught.value.details] == [("query.filters[0].key", "type")]


def test_bounds_of_an_integer() -> None:
    def read(text: str) -> tuple[int | None, list[Issue]]:
        issues = Issues()
        return bounded_int({"limit": text}, "limit", 50, 1, 200, issues), list(issues)

    assert (read("1"), read("200")) == ((1, []), (200, []))
    faults = dict.fromkeys(("0", "-1", "-" + "9" * 5000), "too_small")
    faults |= dict.fromkeys(("201", "9" * 18, "9" * 5000), "too_large")
    faults |= dict.fromkeys(("", "1.0", "x", " 1", "1\n", "٣", "+1", "1_0"), "type")
    for text, code in faults.items():
        value, (issue,) = read(text)
        assert (value, issue.path, issue.code) == (50, "query.limit", code), text


def test_bounds_of_a_text() -> None:
    for text, kept in {"": None, "a": "a", "é" * 4: "é" * 4, "a" * 5: None}.items():
        issues = Issues()
        assert bounded_text({"q": text}, "q", 1, 4, issues) == kept
        assert len(issues) == (kept is None)


def test_absent_parameters_have_their_defaults_and_repeated_ones_are_faults() -> None:
    issues = Issues()
    assert bounded_int({}, "limit", 50, 1, 200, issues) == 50
    assert bounded_text({}, "cursor", 1, 500, issues) is None
    assert len(issues) == 0
    twice = MultiDict([("limit", "1"), ("limit", "1"), ("cursor", "a"), ("cursor", "b")])
    assert bounded_int(twice, "limit", 50, 1, 200, issues) == 50
    assert bounded_text(twice, "cursor", 1, 500, issues) is None
    assert len(issues) == 2


class _Point(msgspec.Struct, forbid_unknown_fields=True):
    x: Annotated[int, msgspec.Meta(ge=0)]
    name: str = "none"
    rest: list[int] = []


def test_a_mended_body_keeps_what_is_sound() -> None:
    issues = Issues()
    point = decode_with_placeholders(_Point, b'{"x": -1, "name": "a", "rest": [1, "b"], "y": 1}', {"x": 0}, issues)
    assert point == _Point(x=0, name="a", rest=[])
    with pytest.raises(BadRequest) as refused:
        issues.raise_if_any()
    assert [each.path for each in refused.value.details or ()] == ["body.x", "body.rest[1]", "body.y"]


def test_a_body_that_cannot_be_mended_is_none() -> None:
    """One that is no object is, whatever could stand in."""
    cases: list[tuple[bytes, dict[str, object]]] = []
    cases += [(raw, {}) for raw in (b"", b"[1]", b"null", b'{"x": "a"}', b'{"name": "a"}', b"\xff")]
    cases += [(raw, {"x": 0}) for raw in (b"[1]", b"[null, null]", b'"AAA"', b"null", b"1")]
    for raw, placeholders in cases:
        issues = Issues()
        assert decode_with_placeholders(_Point, raw, placeholders, issues) is None
        assert len(issues) > 0
