"""The statements on errors, one of each shape, for the golden files."""

from dataclasses import replace
from typing import Any, Final

from chassis.http.validation import Issues
from query.fields import ERRORS, LOGS
from query.request.filters import Filter, Op, condition
from query.statements import (
    Condition,
    ErrorFacets,
    ErrorGroupType,
    ErrorOrder,
    ErrorRanking,
    ErrorRecord,
    ErrorSeries,
    ErrorSparklines,
    ErrorTraces,
    FirstOccurrences,
    LatestOccurrences,
    Listing,
    Position,
    Statement,
    TextIn,
)
from query.statements.window import Window
from query.timestamps import HOUR, MINUTE

NOW: Final = 1_795_188_000_123_456_789
WINDOW: Final = Window(NOW - HOUR, NOW)
PRINT: Final = bytes(range(16))
OTHER: Final = bytes(range(16, 32))
TRACE: Final = bytes(range(32, 48))


def filtered(*filters: tuple[Any, ...]) -> tuple[Condition, ...]:
    issues = Issues()
    found = [condition(Filter(key, op, tuple(values)), ERRORS, NOW, "p", issues) for key, op, *values in filters]
    issues.raise_if_any()
    return tuple(each for each in found if each is not None)


PROD: Final = filtered(("environment", Op.EQ, "prod"))
_RANKING: Final = ErrorRanking(project_id=7, window=WINDOW, order=ErrorOrder.LAST_SEEN, limit=51)
_LIST: Final = Listing(project_id=7, signal=ERRORS, window=WINDOW, limit=51)

SHAPES: Final[dict[str, Statement]] = {
    "errors_by_last_seen": _RANKING,
    "errors_by_last_seen_after": replace(_RANKING, after=(NOW - 1, PRINT), conditions=PROD),
    "errors_by_count": replace(_RANKING, order=ErrorOrder.COUNT),
    "errors_by_first_seen_after": replace(_RANKING, order=ErrorOrder.FIRST_SEEN, after=(NOW - 1, PRINT)),
    "error_facets_estimated": ErrorFacets(
        project_id=7, window=WINDOW, conditions=PROD, fingerprints=(PRINT, OTHER), limit=20, exact=False
    ),
    "error_facets": ErrorFacets(project_id=7, window=WINDOW, conditions=PROD, fingerprints=(PRINT, OTHER), limit=20),
    "error_traces": ErrorTraces(project_id=7, window=WINDOW, fingerprints=(PRINT, OTHER)),
    "error_traces_estimated": ErrorTraces(project_id=7, window=WINDOW, fingerprints=(PRINT,), exact=False),
    "latest_errors": LatestOccurrences(
        project_id=7,
        window=Window(NOW - HOUR, NOW),
        conditions=PROD,
        fingerprint_times=((PRINT, NOW - HOUR), (OTHER, NOW - 2), (TRACE, NOW - 1)),
    ),
    "error_series": ErrorSeries(project_id=7, window=WINDOW, fingerprint=PRINT, interval_ns=MINUTE),
    "error_sparklines": ErrorSparklines(
        project_id=7, window=WINDOW, conditions=PROD, fingerprints=(PRINT, OTHER), parts=24
    ),
    "first_errors": FirstOccurrences(project_id=7, fingerprints=(PRINT, OTHER)),
    "known_error": ErrorGroupType(project_id=7, fingerprint=PRINT),
    "error_record": ErrorRecord(project_id=7, fingerprint=PRINT, time_ns=NOW, batch_id=2**63 - 1, row=5),
    "error_occurrences": _LIST,
    "error_occurrences_own_fields": replace(
        _LIST,
        after=Position(NOW - 1, TRACE, bytes(8), 2**63 - 1, 5),
        conditions=filtered(
            ("fingerprint", Op.EQ, PRINT.hex()),
            ("type", Op.IN, "ValueError", "KeyError"),
            ("message", Op.CONTAINS, "refused"),
            ("message", Op.NOT_EXISTS),
            ("source", Op.EQ, "span"),
            ("serviceName", Op.NEQ, "cart"),
            ("release", Op.NOT_EXISTS),
            ("time", Op.GTE, "now-30m"),
            ("traceId", Op.EXISTS),
            ("spanId", Op.EQ, "00000000000000ab"),
        ),
    ),
    "logs_around": Listing(
        project_id=7,
        signal=LOGS,
        window=WINDOW,
        conditions=(Condition(LOGS.fields["serviceName"], TextIn(("cart",))),),
        oldest_first=True,
        limit=21,
    ),
}
