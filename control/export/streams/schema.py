"""Schemas of the streams: what is published, and what Parquet files and tables have.

A change adds columns, which may be null, and a version. Nothing is removed or renamed, and no type changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from control.export.model import Stream


class ColumnType(StrEnum):
    """The type of a column. TIMESTAMP: UTC, in microseconds; JSON: text."""

    STRING = "string"
    INTEGER = "integer"  # 64 bits, signed
    NUMBER = "number"  # a double
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream. `since`: the version of the schema that added it."""

    name: str
    type: ColumnType
    description: str
    nullable: bool = False
    since: int = 1


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """The columns of a stream, in their order. `table`: its name in a warehouse."""

    stream: Stream
    version: int
    columns: tuple[Column, ...]

    @property
    def table(self) -> str:
        return f"sluice_{self.stream.value.lower()}"

    @property
    def column_names(self) -> Sequence[str]:
        return [column.name for column in self.columns]


ROW_ID: Final = Column("row_id", ColumnType.STRING, "Identifies the row: merge by it where a row may arrive twice.")
