"""How SQLite goes about what is asked of it: which index, how much of it, and whether it sorts."""

from typing import Any, Self

import sqlalchemy as sa

from chassis.db.database import Database


class Plans:
    """Those of the statements on one table; `seen` is what a test takes and empties."""

    def __init__(self, database: Database, table: str) -> None:
        assert database._engine is not None
        self._engine, self._table = database._engine.sync_engine, table
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        sa.event.listen(self._engine, "before_cursor_execute", self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sa.event.remove(self._engine, "before_cursor_execute", self._look)

    def _look(self, connection: sa.Connection, _cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if not statement.startswith(("SELECT", "UPDATE", "WITH")) or self._table not in statement:
            return
        own = connection.connection.cursor()
        own.execute("EXPLAIN QUERY PLAN " + statement, parameters)
        found = [str(row[3]) for row in own.fetchall()]
        own.close()
        self.seen += [one.partition("USING INDEX ")[2] or one for one in found if self._table in one or "B-TREE" in one]
