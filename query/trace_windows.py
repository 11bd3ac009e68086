"""The time ranges of a trace, from the trace index: reads of its rows are limited to these windows."""

from query.read_store import ReadStore
from query.statements import TraceBounds
from query.statements.predicates import Window


async def trace_windows(store: ReadStore, project_id: int, trace_id: bytes) -> dict[int, Window]:
    """The time ranges of a trace's spans and log records, by the signal's code; empty for an unknown trace."""
    bounds = await store.rows(TraceBounds(project_id=project_id, trace_id=trace_id))
    return {code: Window(low, high + 1) for code, low, high in bounds}
