"""Reads uploaded source maps in a process of its own, one at a time: a map may be made to take twenty times its size in
memory and seconds of the interpreter. The process has limits of memory and time, and ends with the map.

`python -m control.source_maps.reader` takes a map on standard input and answers with a `_Result` on standard output.
"""

import asyncio
import resource
import sys
import zlib
from typing import Final

import msgspec

from chassis.errors import BadRequest, Issue, ServiceUnavailable
from proto.source_maps.compact_map import MAX_MEMORY_BYTES as MAX_LOADED_BYTES
from proto.source_maps.compact_map import CompactMap
from proto.source_maps.reading import read_source_map
from proto.source_maps.vlq import InvalidSourceMap

MAX_MEMORY_BYTES: Final = 512 * 2**20  # address space of the process
MAX_CPU_S: Final = 60
MAX_TIME_S: Final = 120.0
INVALID: Final = "The source map is not valid."
_TOO_COSTLY: Final = f"It takes more than {MAX_MEMORY_BYTES // 2**20} MiB or {MAX_CPU_S} s to read."
_TOO_LARGE: Final = (
    f"It would take more than {MAX_LOADED_BYTES // 2**20} MiB in the memory of each process that uses it."
)


class _Result(msgspec.Struct, array_like=True):
    """`content`: a StoredMap, compressed; empty if `fault` says what is wrong."""

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
        """Raises BadRequest with the fault of the map, and ServiceUnavailable if no process can be started."""
        async with self._slot:
            output = await _run(raw)
        try:
            result = msgspec.msgpack.decode(output, type=_Result)
        except msgspec.MsgspecError:
            result = _Result(b"", None, _TOO_COSTLY)
        if result.fault:
            raise BadRequest(INVALID, [Issue("body", result.fault, "invalid")])
        return UploadedMap(result.content, result.debug_id)


async def _run(raw: bytes) -> bytes:
    """What the process says; nothing if a limit ended it. Raises ServiceUnavailable."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # modules of the working directory are not those of Python
            "-m",
            "control.source_maps.reader",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise ServiceUnavailable("The source map cannot be read now; retry later.") from error
    try:
        async with asyncio.timeout(MAX_TIME_S):
            output, _ = await process.communicate(raw)
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output


def read_upload(raw: bytes) -> bytes:
    """The answer of the process to a map."""
    try:
        read = read_source_map(raw)
    except InvalidSourceMap as error:
        return msgspec.msgpack.encode(_Result(b"", None, str(error)))
    except MemoryError:
        return msgspec.msgpack.encode(_Result(b"", None, _TOO_COSTLY))
    if CompactMap(read.stored).memory_bytes > MAX_LOADED_BYTES:
        return msgspec.msgpack.encode(_Result(b"", None, _TOO_LARGE))
    content = zlib.compress(msgspec.msgpack.encode(read.stored), 6)
    return msgspec.msgpack.encode(_Result(content, read.debug_id, ""))


def main() -> None:
    """Read one map from standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(read_upload(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
