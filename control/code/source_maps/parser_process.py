"""Parses uploaded source maps in a separate process, one at a time: a hostile map may take twenty times its size in
memory, and seconds of the interpreter. The process has limits of memory and time, and ends after one map.

`python -m control.code.source_maps.parser_process` reads a map on standard input and writes a `_Result` to standard
output.
"""

import asyncio
import resource
import sys
import zlib
from typing import Final

import msgspec
import structlog

from chassis.errors import BadRequest, Issue, ServiceUnavailable
from proto.source_maps.compact_map import MAX_LOADED_BYTES, CompactMap, InvalidSourceMap
from proto.source_maps.parsing import read_source_map

MAX_PROCESS_BYTES: Final = 512 * 2**20  # address space of the process
MAX_CPU_S: Final = 60
MAX_TIME_S: Final = 120.0
OUT_OF_MEMORY: Final = 66  # exit code of the process
INVALID: Final = "The source map is not valid."
_NOT_NOW: Final = "The source map cannot be read now. Retry later."
_TOO_COSTLY: Final = f"Reading the source map takes more than {MAX_PROCESS_BYTES // 2**20} MiB or {MAX_CPU_S} s."
_TOO_LARGE: Final = (
    f"The source map would take more than {MAX_LOADED_BYTES // 2**20} MiB of memory in each process that uses it."
)
_MAX_LOGGED: Final = 1_000  # bytes of the process's last output

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class _Result(msgspec.Struct, array_like=True):
    """`content`: a StoredMap, compressed. It is empty if the map has a fault, which `fault` describes."""

    content: bytes
    debug_id: str | None
    fault: str


class UploadedMap(msgspec.Struct, frozen=True):
    """A map as it is stored."""

    content: bytes
    debug_id: str | None


class SourceMapReader:
    """Reads one map at a time."""

    def __init__(self) -> None:
        self._slot = asyncio.Semaphore(1)

    async def read(self, raw: bytes) -> UploadedMap:
        """Parse a map. Raises BadRequest with the fault of the map, and ServiceUnavailable if the process cannot start
        or fails.
        """
        async with self._slot:
            result = await _run(raw)
        if result.fault:
            raise BadRequest(INVALID, [Issue("body", result.fault, "invalid")])
        return UploadedMap(result.content, result.debug_id)


async def _run(raw: bytes) -> _Result:
    """The result of the process, or the fault that a limit ended it. Raises ServiceUnavailable."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the working directory must not provide modules
            "-m",
            "control.code.source_maps.parser_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise ServiceUnavailable(_NOT_NOW) from error
    try:
        async with asyncio.timeout(MAX_TIME_S):
            output, errors = await process.communicate(raw)
    except TimeoutError:
        return _Result(b"", None, _TOO_COSTLY)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _result(process.returncode or 0, output, errors)


def _result(returncode: int, output: bytes, errors: bytes) -> _Result:
    """The result of a process that has ended. Raises ServiceUnavailable if the process has written none and no limit
    ended it.
    """
    try:
        return msgspec.msgpack.decode(output, type=_Result)
    except msgspec.MsgspecError as error:
        if returncode == OUT_OF_MEMORY:
            return _Result(b"", None, _TOO_COSTLY)
        said = errors[-_MAX_LOGGED:].decode(errors="replace")
        log.warning("the process that reads source maps failed", returncode=returncode, stderr=said)
        if returncode < 0:  # a signal from the limit of CPU time, or from a library that got no memory
            return _Result(b"", None, _TOO_COSTLY)
        raise ServiceUnavailable(_NOT_NOW) from error


def read_upload(raw: bytes) -> bytes:
    """The answer of the process to a map. Raises MemoryError."""
    try:
        read = read_source_map(raw)
    except InvalidSourceMap as error:
        return msgspec.msgpack.encode(_Result(b"", None, str(error)))
    if CompactMap(read.stored).memory_bytes > MAX_LOADED_BYTES:
        return msgspec.msgpack.encode(_Result(b"", None, _TOO_LARGE))
    return msgspec.msgpack.encode(_Result(zlib.compress(msgspec.msgpack.encode(read.stored), 6), read.debug_id, ""))


def main() -> None:
    """Parse one map from standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_PROCESS_BYTES, MAX_PROCESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        sys.stdout.buffer.write(read_upload(sys.stdin.buffer.read()))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
