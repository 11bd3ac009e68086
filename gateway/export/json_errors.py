"""Finds all field errors of a malformed OTLP/JSON request for its 400, because decoders stop at the first one."""

from collections.abc import Mapping
from typing import Final

import msgspec

from chassis.errors import Issue
from chassis.http.validation import Issues, decode_json
from proto.otlp.json import FieldError
from proto.otlp.json.messages import FullLogsRequest, FullTracesRequest
from proto.otlp.policy import Signal

MAX_CHECKED_BYTES: Final = 64 * 2**10  # larger bodies get the first error only: finding all takes several times as long

_SHAPES: Final[Mapping[Signal, type[msgspec.Struct]]] = {"traces": FullTracesRequest, "logs": FullLogsRequest}


def find_field_errors(signal: Signal, body: bytes, first: FieldError) -> list[Issue]:
    """One issue per wrong field, up to the maximum of a response; includes `first`, even if it is no type error."""
    issues = Issues()
    if len(body) <= MAX_CHECKED_BYTES:
        decode_json(_SHAPES[signal], body, "", issues, unique_keys=False)  # OTLP: the last one counts
    found = [msgspec.structs.replace(issue, path=issue.path.removeprefix(".")) for issue in issues]
    if any(issue.path == first.path for issue in found):
        return found
    return [Issue(first.path, first.fault, first.reason.value), *found]
