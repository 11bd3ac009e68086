"""The three layouts: their tables, what fills them, and what follows from their spans."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.explore import statements
from benchmarks.storage import layouts as storage
from benchmarks.storage.engine import Engine, sql_file
from benchmarks.stores import tables

SLUICE: Final = "sluice"
CONTRIB: Final = "contrib"
SIGNOZ: Final = "signoz"


class Laid(NamedTuple):
    """A layout: the table of spans, how it is filled, its own other tables and the statements that fill those."""

    name: str
    table: str
    layout: storage.Layout
    derived: Mapping[str, str]


def laid() -> list[Laid]:
    """Sluice first."""
    known = {each.name: each for each in storage.layouts("spans")}
    derived = statements.named("derived")
    contrib = known[CONTRIB]
    signoz = contrib._replace(name=SIGNOZ, what="SigNoz's", whole_select=statements.whole("signoz_select"))
    return [
        Laid(SLUICE, "spans", known[SLUICE], _some(derived, "trace_index", "attribute_keys", "error_occurrences")),
        Laid(CONTRIB, "otel_traces", contrib, _some(derived, "otel_traces_trace_id_ts")),
        Laid(
            SIGNOZ,
            "signoz_index_v3",
            signoz,
            _some(derived, "traces_v3_resource", "trace_summary", "signoz_error_index_v2"),
        ),
    ]


def create_tables(engine: Engine, directory: Path) -> None:
    """The empty tables of all three: ours by the migrations of the product, kept for ever."""
    asyncio.run(_migrate(directory))
    engine.command(sql_file("contrib_spans").replace("CREATE TABLE contrib", "CREATE TABLE otel_traces"))
    for name in ("contrib_tables", "signoz_tables"):
        for statement in statements.whole(name).split(";"):
            engine.command(statement)


async def _migrate(directory: Path) -> None:
    async with tables(directory):
        pass


def _some(derived: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: derived[name] for name in names}
