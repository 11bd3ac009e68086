"""What is wrong with an OTLP/JSON request, field by field, for its refusal: decoders stop at the first fault."""

from collections.abc import Mapping
from typing import Final

import msgspec

from chassis.errors import Issue
from chassis.http.validation import Issues, decode_json
from proto.otlp.json import FieldError
from proto.otlp.json.messages import FullLogsRequest, FullTracesRequest
from proto.otlp.policy import Signal

MAX_CHECKED_BYTES: Final = (
    64 * 2**10
)  # of a larger body the first fault is enough: to look for all takes several times as long

_SHAPES: Final[Mapping[Signal, type[msgspec.Struct]]] = {"traces": FullTracesRequest, "logs": FullLogsRequest}


def find_field_errors(signal: Signal, body: bytes, first: FieldError) -> list[Issue]:
    """One issue per wrong field, as many as an answer holds; `first` among them, which may be about more than types."""
    issues = Issues()
    if len(body) <= MAX_CHECKED_BYTES:
        decode_json(_SHAPES[signal], body, "", issues)
    found = [msgspec.structs.replace(issue, path=issue.path.removeprefix(".")) for issue in issues]
    if any(issue.path == first.path for issue in found):
        return found
    return [Issue(first.path, first.fault, first.reason.value), *found]
