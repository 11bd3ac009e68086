"""Other names in OTLP/JSON than the names in `messages`: snake_case, names of enum values, and unread names.

The kernel uses the same tables. Sources: the reserved fields and the CHANGELOG of opentelemetry-proto.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

from proto.otlp.policy import RequestWarning, Signal

# Request, ResourceSpans, ScopeSpans, Span, and the same for logs.
Level = Literal["request", "resource", "scope", "item"]
LEVELS: Final[tuple[Level, ...]] = ("request", "resource", "scope", "item")

FIELD_NAMES: Final[Mapping[Signal, tuple[str, str, str]]] = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}
_UNSUPPORTED: Final = (
    ("resourceMetrics", "scopeMetrics", "metrics"),
    ("resourceProfiles", "scopeProfiles", "profiles"),
)
_OTHER_SIGNAL: Final[Mapping[Signal, tuple[Signal, RequestWarning]]] = {
    "traces": ("logs", RequestWarning.LOGS_SENT_AS_SPANS),
    "logs": ("traces", RequestWarning.SPANS_SENT_AS_LOGS),
}
# Until OTLP 0.15 a scope was called instrumentation library and had `logs`. Until 0.16 a log record had a name.
_RETIRED: Final[Mapping[Signal, Mapping[Level, tuple[str, ...]]]] = {
    "traces": {"resource": ("instrumentationLibrarySpans",), "scope": ("instrumentationLibrary",)},
    "logs": {
        "resource": ("instrumentationLibraryLogs",),
        "scope": ("instrumentationLibrary", "logs"),
        "item": ("name",),
    },
}

_LEVELS_OF_SEVERITY: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
# The names of enum values by member, in the order of their numbers, from 0.
ENUM_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": tuple(
        f"SPAN_KIND_{kind}" for kind in ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
    ),
    "code": tuple(f"STATUS_CODE_{code}" for code in ("UNSET", "OK", "ERROR")),
    "severityNumber": (
        "SEVERITY_NUMBER_UNSPECIFIED",
        *(f"SEVERITY_NUMBER_{level}{step}" for level in _LEVELS_OF_SEVERITY for step in ("", "2", "3", "4")),
    ),
}
# The enum by member, and one of its names as an example for messages.
ENUM_EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "kind": ("SpanKind", "SPAN_KIND_SERVER"),
    "code": ("StatusCode", "STATUS_CODE_ERROR"),
    "severityNumber": ("SeverityNumber", "SEVERITY_NUMBER_ERROR"),
}
ENUM_NUMBERS: Final[Mapping[str, Mapping[str, int]]] = {
    member: {name: number for number, name in enumerate(names)} for member, names in ENUM_NAMES.items()
}

_SNAKE: Final = re.compile(rb"[a-z]+(?:_[a-z]+)+")


def unread_names(signal: Signal, level: Level) -> Mapping[str, RequestWarning]:
    """The members of a message at `level` that are known but not read, and the warning for each."""
    names = dict.fromkeys(_RETIRED[signal].get(level, ()), RequestWarning.RETIRED_NAMES)
    if level != "item":
        place = LEVELS.index(level)
        other, warning = _OTHER_SIGNAL[signal]
        names[FIELD_NAMES[other][place]] = warning
        names |= dict.fromkeys((lists[place] for lists in _UNSUPPORTED), RequestWarning.UNSUPPORTED_SIGNAL)
    return names


def camel_case(name: bytes) -> bytes | None:
    """The lowerCamelCase name of a member whose snake_case name is `name`. None if `name` is not in snake_case."""
    if not _SNAKE.fullmatch(name):
        return None
    first, *others = name.split(b"_")
    return first + b"".join(word.capitalize() for word in others)
