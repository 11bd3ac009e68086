"""Bodies compressed in the ways that ClickHouse takes and gives them.

`Content-Encoding` and `Accept-Encoding` are HTTP's. `decompress=1` says that the body is in ClickHouse's own framing, a
row of blocks: 16 bytes checksum (CityHash128), 1 byte method, 4 bytes size with this head of 9, 4 bytes size inflated,
data. The checksum is skipped: no library at hand computes this old variant of CityHash.
"""

import gzip
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import lz4.block  # type: ignore[import-untyped]  # lz4 has no types
import lz4.frame  # type: ignore[import-untyped]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHECKSUM_BYTES: Final = 16
HEAD: Final = struct.Struct("<BII")
LZ4, ZSTD, NONE = 0x82, 0x90, 0x02

_INFLATE: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": zstd.decompress,
    "lz4": lz4.frame.decompress,
}
_COMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "zstd": zstd.compress,
    "lz4": lz4.frame.compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}


class Incompressible(Exception):
    """The body is not what its encoding says, or an encoding nobody knows."""


def inflate(body: bytes, encoding: str) -> bytes:
    """A body of the given `Content-Encoding`. Raises Incompressible."""
    try:
        return _INFLATE[encoding](body)
    except KeyError as error:
        raise Incompressible(f"Unknown compression method '{encoding}'") from error
    except (OSError, EOFError, RuntimeError, zlib.error, zstd.ZstdError) as error:
        raise Incompressible(f"The {encoding} body is broken: {error}") from error


def compress(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """The body in the encoding of `Accept-Encoding` that a server prefers, and its name."""
    offered = {name.split(";")[0].strip() for name in accepted.split(",")}
    for name, method in _COMPRESS.items():
        if name in offered:
            return method(body), name
    return body, None


def inflate_blocks(body: bytes) -> bytes:
    """A body in ClickHouse's own framing. Raises Incompressible."""
    try:
        return b"".join(_blocks(body))
    except (struct.error, RuntimeError, ValueError, zstd.ZstdError) as error:
        raise Incompressible(f"Cannot decompress: {error}") from error


def _blocks(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        method, size, inflated = HEAD.unpack_from(body, at + CHECKSUM_BYTES)
        data = body[at + CHECKSUM_BYTES + HEAD.size : at + CHECKSUM_BYTES + size]
        if len(data) != size - HEAD.size:
            raise ValueError("the body ends in the middle of a block")
        at += CHECKSUM_BYTES + size
        if method == LZ4:
            yield lz4.block.decompress(data, uncompressed_size=inflated)
        elif method == ZSTD:
            yield zstd.decompress(data)
        elif method == NONE:
            yield data
        else:
            raise ValueError(f"unknown method {method:#x}")
