"""The statements on errors, one of each shape, for the golden files."""

from dataclasses import replace
from typing import Final

from chassis.http.validation import Issues
from query import statements as q
from query.request.filters import conditions, parse_filters
from query.rows import ERRORS, LOGS
from query.statements import Condition, Listing, Statement, Window
from query.values import HOUR, MINUTE

NOW: Final = 1_795_188_000_123_456_789
WINDOW: Final = Window(NOW - HOUR, NOW)
PRINT: Final = bytes(range(16))
OTHER: Final = bytes(range(16, 32))
TRACE: Final = bytes(range(32, 48))


def filtered(written: str) -> tuple[Condition, ...]:
    issues = Issues()
    found = conditions(parse_filters(written, "p", issues), ERRORS, NOW, "p", issues)
    issues.raise_if_any()
    return found


PROD: Final = filtered("environment:prod")
_RANKING: Final = q.ErrorRanking(project_id=7, window=WINDOW, order=q.ErrorOrder.LAST_SEEN, limit=51)
_LIST: Final = Listing(project_id=7, signal=ERRORS, window=WINDOW, limit=51)

SHAPES: Final[dict[str, Statement]] = {
    "errors_by_last_seen": _RANKING,
    "errors_by_last_seen_after": replace(_RANKING, after=(NOW - 1, PRINT), conditions=PROD),
    "errors_by_count": replace(_RANKING, order=q.ErrorOrder.COUNT),
    "errors_by_first_seen_after": replace(_RANKING, order=q.ErrorOrder.FIRST_SEEN, after=(NOW - 1, PRINT)),
    "error_facets_estimated": q.ErrorFacets(
        project_id=7, window=WINDOW, conditions=PROD, fingerprints=(PRINT, OTHER), limit=20, exact=False
    ),
    "error_facets": q.ErrorFacets(project_id=7, window=WINDOW, conditions=PROD, fingerprints=(PRINT, OTHER), limit=20),
    "error_traces": q.ErrorTraces(project_id=7, window=WINDOW, fingerprints=(PRINT, OTHER)),
    "error_traces_estimated": q.ErrorTraces(project_id=7, window=WINDOW, fingerprints=(PRINT,), exact=False),
    "latest_errors": q.LatestOccurrences(
        project_id=7,
        window=WINDOW,
        conditions=PROD,
        fingerprint_times=((PRINT, NOW - HOUR), (OTHER, NOW - 2), (TRACE, NOW - 1)),
    ),
    "error_series": q.ErrorSeries(project_id=7, window=WINDOW, fingerprint=PRINT, interval_ns=MINUTE),
    "error_sparklines": q.ErrorSparklines(
        project_id=7, window=WINDOW, conditions=PROD, fingerprints=(PRINT, OTHER), parts=24
    ),
    "first_errors": q.FirstOccurrences(project_id=7, fingerprints=(PRINT, OTHER)),
    "known_error": q.ErrorGroupType(project_id=7, fingerprint=PRINT),
    "error_record": q.ErrorRecord(project_id=7, fingerprint=PRINT, time_ns=NOW, batch_id=2**63 - 1, row=5),
    "error_occurrences": _LIST,
    "error_occurrences_own_fields": replace(
        _LIST,
        after=q.Position(NOW - 1, TRACE, bytes(8), 2**63 - 1, 5),
        conditions=filtered(
            f"fingerprint:{PRINT.hex()} type:[ValueError,KeyError] message:*refused* !has:message source:span "
            "-serviceName:cart !has:release time:>=now-30m has:traceId spanId:00000000000000ab"
        ),
    ),
    "logs_around": Listing(
        project_id=7,
        signal=LOGS,
        window=WINDOW,
        conditions=(Condition(LOGS.fields["serviceName"], q.TextIn(("cart",))),),
        oldest_first=True,
        limit=21,
    ),
}
