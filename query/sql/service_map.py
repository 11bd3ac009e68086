"""A service map: the calls between services, and the figures of each."""

from typing import Final

from query.rows import SPAN_KINDS, SPANS, STATUS_CODES
from query.sql.aggregate import recheck_column
from query.sql.bindings import Bindings, Query, project_predicate, time_predicates
from query.sql.predicates import condition_sql
from query.statements import ServiceCalls, ServiceFigures

_LENGTH: Final = "toInt128(greatest(duration, 0))"
_FAILED: Final = f"status_code = {STATUS_CODES.index('ERROR')}"
_CALLING: Final = f"kind IN ({SPAN_KINDS.index('CLIENT')}, {SPAN_KINDS.index('PRODUCER')})"
_CALLED: Final = f"kind IN ({SPAN_KINDS.index('SERVER')}, {SPAN_KINDS.index('CONSUMER')})"
_EARLIEST: Final = "(start_time, batch_id, row)"  # of spans that share an id, the one that owns the children


def service_calls(statement: ServiceCalls) -> Query:
    """Rows: (caller, callee, calls, of these failed, nanoseconds of all)."""
    bindings = Bindings(statement.existing_attributes)
    shared = _of_traces(statement, bindings)
    calling = "\n  AND ".join([*shared, _CALLING])
    called = "\n  AND ".join([*shared, _CALLED, *(condition_sql(each, bindings) for each in statement.conditions)])
    recheck = bindings.recheck_condition
    sql = f"""SELECT caller, callee, count() AS calls, countIf(failed), sum(length){
        recheck_column("max(overlooked)", bindings)
    }
FROM (
SELECT trace_id, parent_span_id, service_name AS callee, {_FAILED} AS failed, {_LENGTH} AS length{
        f", {recheck} AS overlooked" if recheck else ""
    }
FROM spans
WHERE {called}) AS called
INNER JOIN (
SELECT trace_id, span_id, argMin(service_name, {_EARLIEST}) AS caller
FROM spans
WHERE {calling}
GROUP BY trace_id, span_id) AS calling
ON called.trace_id = calling.trace_id AND called.parent_span_id = calling.span_id
GROUP BY caller, callee
ORDER BY calls DESC, caller, callee
LIMIT {bindings.uint64(statement.limit)}
"""
    return Query(sql, bindings.used_parameters(sql), needs_recheck=recheck is not None)


def service_figures(statement: ServiceFigures) -> Query:
    """Rows: (service, spans, calls served, of these failed, nanoseconds of all)."""
    bindings = Bindings(statement.existing_attributes)
    where = _of_traces(statement, bindings)
    if statement.services is not None:
        where.append(f"service_name IN {bindings.texts(statement.services)}")
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
    recheck = bindings.recheck_condition
    conditions = "\n  AND ".join(where)
    sql = f"""SELECT service_name, count() AS held, countIf({_CALLED}), countIf({_CALLED} AND {_FAILED}),
  sumIf({_LENGTH}, {_CALLED}){recheck_column(f"max({recheck})", bindings)}
FROM spans
WHERE {conditions}
GROUP BY service_name
ORDER BY held DESC, service_name
LIMIT {bindings.uint64(statement.limit)}
"""
    return Query(sql, bindings.used_parameters(sql), needs_recheck=recheck is not None)


def _of_traces(statement: ServiceCalls | ServiceFigures, bindings: Bindings) -> list[str]:
    """The predicates of all spans that a map reads. CRC-32 is the one of zlib."""
    where = [project_predicate(statement, bindings), *time_predicates(SPANS, statement.window, bindings)]
    if statement.one_in > 1:
        where.append(f"CRC32(trace_id) % {bindings.uint32(statement.one_in)} = 0")
    return where
