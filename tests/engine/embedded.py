"""Statements run in the embedded engine, one fresh handle each: what a request sets is gone with it.

A handle is opened in under a millisecond, has settings and a database of its own, and runs beside the others, so it is
as good as a server's query context. The engine itself says which settings are unknown, and which a read-only user may
not change.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import chdb
from chdb.state.sqlitelike import Connection

from tests.engine.statements import Statement

BLOCK_INFO: Final = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # no overflow row, no bucket; before each block from 51903 on
BLOCK_INFO_SINCE: Final = 51903

_CODE: Final = re.compile(r"Code: (\d+)\. DB::Exception: ")
_REPEATED: Final = re.compile(r"^(Code: \d+\. DB::Exception: )\1(.*) \(version [\d.]+\)\. \(\w+\)$", re.DOTALL)
_STREAMS: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)  # the engine gives other results whole
_SETTINGS: Final = re.compile(r"\bSETTINGS\b[^()]*$", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")


class EngineError(Exception):
    """What the engine refuses, with its code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Call(NamedTuple):
    """One request, taken apart. `profile` is set before anything that the request asks for."""

    statement: Statement
    database: str
    profile: Mapping[str, str]
    settings: Mapping[str, str]
    parameters: Mapping[str, str]
    protocol: int
    default_format: str


class Result(NamedTuple):
    """What came of it; `format` is None for a statement without a result."""

    body: bytes
    format: str | None
    summary: Mapping[str, int]


class Embedded:
    """The engine of one directory, open for as long as this is."""

    def __init__(self, directory: Path, config: Path | None = None) -> None:
        """`config`: an XML file that the engine reads once; whoever opens the directory meanwhile has it, too."""
        self._path = str(directory)
        self._anchor = _open(self._path if config is None else f"{self._path}?config-file={config}")
        self.version = self._anchor.query("SELECT version()", "TabSeparated").bytes().decode().strip()

    def close(self) -> None:
        """Shut it down."""
        self._anchor.close()

    def run(self, call: Call) -> Result:
        """Run a statement to its end; blocks. Raises EngineError."""
        handle = _open(self._path)
        try:
            _prepare(handle, call)
            if call.statement.data is not None:
                return _insert(handle, call.statement, call.statement.data)
            return _query(handle, call)
        except (RuntimeError, chdb.ChdbError) as error:
            raise _error(str(error)) from error
        finally:
            handle.close()

    def kill(self, comment: str) -> None:
        """Cancel the queries with this `log_comment`."""
        handle = _open(self._path)
        try:
            handle.query(
                "KILL QUERY WHERE Settings['log_comment'] = {comment:String} ASYNC", params={"comment": comment}
            )
        finally:
            handle.close()


def _open(path: str) -> Connection:
    handle: Connection = chdb.connect(path)  # type: ignore[no-untyped-call]  # chdb types half of its functions
    return handle


def _prepare(handle: Connection, call: Call) -> None:
    if call.database:
        handle.query(f"USE `{call.database.replace('`', '``')}`")
    for settings in (call.profile, call.settings):
        if settings:
            handle.query("SET " + ", ".join(f"{_name(name)} = {_text(value)}" for name, value in settings.items()))


def _insert(handle: Connection, statement: Statement, data: bytes) -> Result:
    """Insert from a file in memory: the streaming insert of the engine knows no limit on partitions."""
    file = os.memfd_create("insert")
    try:
        with open(file, "wb", closefd=False) as writer:
            writer.write(data)
        text, settings = _SETTINGS.sub("", statement.text), _SETTINGS.search(statement.text)
        result = handle.query(
            f"{text} FROM INFILE '/proc/self/fd/{file}' COMPRESSION 'none'"
            f" {settings[0] if settings else ''} FORMAT {statement.format}"
        )
    finally:
        os.close(file)
    rows, nbytes = result.rows_read(), result.bytes_read()
    return Result(b"", None, _summary(result) | {"written_rows": rows, "written_bytes": nbytes, "result_rows": rows})


def _query(handle: Connection, call: Call) -> Result:
    statement, parameters = call.statement, dict(call.parameters)
    shape = statement.format or call.default_format
    informed = shape == "Native" and statement.answers and call.protocol >= BLOCK_INFO_SINCE
    if informed and _STREAMS.match(statement.text):
        blocks = [block.bytes() for block in handle.send_query(statement.text, shape, params=parameters)]
        return Result(b"".join(BLOCK_INFO + block for block in blocks), shape, {})
    result = handle.query(statement.text, shape, params=parameters)
    body = result.bytes() or b""
    if informed and body:  # what cannot be streamed is short: one block
        body = BLOCK_INFO + body
    return Result(body, shape if statement.answers else None, _summary(result))


def _summary(result: Any) -> dict[str, int]:
    return {
        "read_rows": result.storage_rows_read(),
        "read_bytes": result.storage_bytes_read(),
        "written_rows": result.rows_written(),
        "written_bytes": result.bytes_written(),
        "result_rows": result.rows_read(),
        "result_bytes": result.bytes_read(),
        "elapsed_ns": int(result.elapsed() * 1e9),
    }


def _name(name: str) -> str:
    if not _PLAIN.fullmatch(name):
        raise EngineError(115, f"Code: 115. DB::Exception: Unknown setting '{name}'. (UNKNOWN_SETTING)")
    return name


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _error(text: str) -> EngineError:
    """As a server words it: once, without what the layers around it added."""
    found = _CODE.search(text)
    if found is None:
        return EngineError(1002, f"Code: 1002. DB::Exception: {text}")
    return EngineError(int(found[1]), _REPEATED.sub(r"\1\2", text[found.start() :].strip()))
