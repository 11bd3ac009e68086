"""The types of response fields, as `/openapi.json` shows them.

A number that is spliced into the JSON as text keeps every digit, which `float` would not: such a field is a
`msgspec.Raw`, annotated with the schema of the JSON it holds.
"""

from typing import Annotated, Any, Final

import msgspec

from query.fields import SPAN_KINDS, STATUS_CODES


def raw_json(description: str, **schema: Any) -> msgspec.Meta:
    """The annotation of a `msgspec.Raw`: the schema of the JSON it holds."""
    return msgspec.Meta(description=description, extra_json_schema=schema)


TraceId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$", description="Trace id.")]
SpanId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$", description="Span id, unique within its trace.")]
Timestamp = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$",
        description="UTC time with nanosecond precision.",
        examples=["2026-11-20T15:17:03.123456789Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Millis = Annotated[msgspec.Raw, raw_json("Milliseconds, with nanosecond precision.", type="number", minimum=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Range(msgspec.Struct):
    """A half-open time range; `to` is exclusive."""

    from_: Timestamp = msgspec.field(name="from")
    to: Timestamp


_TYPED: Final = 'each value has its original type; NaN and infinities are strings, bytes are `{"bytesValue": base64}`.'
Attributes = Annotated[dict[str, object], msgspec.Meta(description=f"By key; {_TYPED}")]
MergedAttributes = Annotated[
    dict[str, object],
    msgspec.Meta(description=f"The item's attributes by key, then `resource.<key>` and `scope.<key>`; {_TYPED}"),
]
RawAttributes = Annotated[
    msgspec.Raw, raw_json("By key; each value has its original type.", type="object", additionalProperties=True)
]

_KINDS: Final = {"enum": list(SPAN_KINDS)}
_STATUSES: Final = {"enum": list(STATUS_CODES)}
SpanKind = Annotated[str, msgspec.Meta(description="Span kind.", extra_json_schema=_KINDS)]
StatusCode = Annotated[str, msgspec.Meta(description="Span status code.", extra_json_schema=_STATUSES)]
