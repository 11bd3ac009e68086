"""Clauses that statements share: the project, the time window, and the layout of a statement."""

from collections.abc import Iterable

from query.fields import TelemetryTable
from query.sql.bindings import Bindings, Query
from query.statements import Statement
from query.statements.window import Window


def select(columns: Iterable[str], table: str, where: Iterable[str], tail: Iterable[str], bindings: Bindings) -> Query:
    """A complete statement; `tail` follows WHERE. Its rows end with the recheck condition, if there is one."""
    selected = [*columns, bindings.recheck_condition] if bindings.recheck_condition else columns
    lines = [f"SELECT {', '.join(selected)}", f"FROM {table}", "WHERE " + "\n  AND ".join(where), *tail]
    sql = "\n".join(lines) + "\n"
    return Query(sql, bindings.used_parameters(sql), needs_recheck=bindings.recheck_condition is not None)


def project_predicate(statement: Statement, bindings: Bindings) -> str:
    """The first predicate of every statement."""
    return f"project_id = {bindings.uint64(statement.project_id)}"


def time_predicates(signal: TelemetryTable, window: Window, bindings: Bindings) -> list[str]:
    """The window's bounds on the time column, and on the five-minute bucket of the sort key."""
    bucket = f"toStartOfFiveMinutes({signal.time_column})"
    return [
        f"{bucket} >= {bindings.bucket(window.from_ns)}",
        f"{bucket} <= {bindings.bucket(window.to_ns - 1)}",
        f"{signal.time_column} >= {bindings.timestamp(window.from_ns)}",
        f"{signal.time_column} < {bindings.timestamp(window.to_ns)}",
    ]
