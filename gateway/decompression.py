"""Decompresses a Content-Encoding, only after the key was verified, and never to more than the cap of the body.

A body of several gzip members (or zstd frames) is their concatenation, as the RFCs specify; their number is capped,
because each needs a set-up. Trailing bytes that are not another member are an error. `deflate` means zlib (RFC 9110);
the raw deflate that some clients send under that name is recognized by its first two bytes and accepted as well. `zlib`
is what the Collector calls it.
"""

import re
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from chassis.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

IDENTITY: Final = "identity"
ENCODINGS: Final = ("gzip", "deflate", "zstd")

_ALIASES: Final[Mapping[str, str]] = {"": IDENTITY, "x-gzip": "gzip", "zlib": "deflate"}
# Input step of a member after the first: the unused rest of the input is copied each time.
_INPUT_STEP_BYTES: Final = 64 * 2**10
_ZSTD_FRAME: Final = b"\x28\xb5\x2f\xfd"
# Of a member that may be truncated: gzip (RFC 1952, 2.3.1), and frames of zstd, also skippable ones (RFC 8878, 3.1).
_BEGINNINGS: Final[Mapping[str, re.Pattern[bytes]]] = {
    "gzip": re.compile(rb"\x1f(?:\x8b|\Z)", re.DOTALL),
    "zstd": re.compile(
        rb"\x28(?:\Z|\xb5(?:\Z|\x2f(?:\Z|\xfd)))|[\x50-\x5f](?:\Z|\x2a(?:\Z|\x4d(?:\Z|\x18)))", re.DOTALL
    ),
}
_MEMBERS: Final[Mapping[str, str]] = {"gzip": "gzip member", "zstd": "zstd frame"}


def _fastest_zlib() -> Any:
    """isal if it is installed: the same interface as zlib at twice the speed, but without wheels for some platforms."""
    try:
        from isal import isal_zlib  # noqa: PLC0415 (it may be missing)
    except ImportError:
        return zlib
    return isal_zlib


_zlib: Final = _fastest_zlib()
_ERRORS: Final[tuple[type[Exception], ...]] = (zlib.error, zstd.ZstdError, _zlib.error)


class DecompressionLimits(NamedTuple):
    """Maximum bytes of output, members (or frames) of input, and bytes of a zstd window."""

    max_bytes: int
    max_frames: int
    max_window_bytes: int


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Any, max_length: int, /) -> bytes: ...


def content_encoding(values: list[str]) -> str:
    """The single encoding of a body, from its Content-Encoding headers. Raises UnsupportedMediaType for stacked and
    unknown encodings.
    """
    name = values[0].strip().lower() if len(values) == 1 else ",".join(values)
    name = _ALIASES.get(name, name) if values else IDENTITY
    if name == IDENTITY or name in ENCODINGS:
        return name
    raise UnsupportedMediaType("Content-Encoding must be gzip, deflate, zstd or identity.")


def decompress(encoding: str, body: bytes, limits: DecompressionLimits) -> bytes:
    """Decompress `body`. Raises BadRequest when it is corrupt, truncated or followed by other bytes, and
    PayloadTooLarge beyond a limit. Blocks for about a millisecond per two megabytes of output.
    """
    if encoding == IDENTITY:
        if len(body) > limits.max_bytes:
            raise _too_large(limits)
        return body
    start = _DECOMPRESSORS[encoding]
    pieces: list[bytes] = []
    left, offset, members = limits.max_bytes, 0, 0
    while offset < len(body) or not members:
        members += 1
        if members > 1:
            _require_member(encoding, body, offset)
        if members > limits.max_frames:
            raise PayloadTooLarge(f"The {encoding} body has more than {limits.max_frames} members.")
        try:
            offset, left = _decompress_frame(start(body, offset, limits), body, offset, left, pieces)
        except _ERRORS as error:
            raise BadRequest(f"The body is not valid {encoding}.") from error
        except EOFError as error:
            raise BadRequest(f"The {encoding} body is truncated.") from error
        if left < 0:
            raise _too_large(limits)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_frame(
    member: _Decompressor, body: bytes, offset: int, left: int, pieces: list[bytes]
) -> tuple[int, int]:
    """Decompress one member into `pieces`; returns the offset of the next member, and the bytes of output left
    (negative: too many).
    """
    step = len(body) if offset == 0 else _INPUT_STEP_BYTES
    view = memoryview(body)
    ended = False
    while not ended:
        if offset >= len(body):
            raise EOFError
        fed = view[offset : offset + step]
        offset += len(fed)
        data = member.decompress(fed, left + 1)
        ended = member.eof
        while data:
            pieces.append(data)
            left -= len(data)
            if left < 0:
                return offset, left
            data = b"" if ended else member.decompress(getattr(member, "unconsumed_tail", b""), left + 1)
            ended = member.eof
    return offset - len(member.unused_data), left


def _require_member(encoding: str, body: bytes, offset: int) -> None:
    """Raise BadRequest if the rest of the body is not another member."""
    beginning = _BEGINNINGS.get(encoding)
    if beginning is not None and beginning.match(body[offset : offset + 4]) is None:
        left = len(body) - offset
        rest = "1 byte that is" if left == 1 else f"{left} bytes that are"
        raise BadRequest(f"The {encoding} body is followed by {rest} not another {_MEMBERS[encoding]}.")


def _too_large(limits: DecompressionLimits) -> PayloadTooLarge:
    return PayloadTooLarge(f"The decompressed body is larger than {limits.max_bytes} bytes.")


def _gzip(body: bytes, offset: int, _limits: DecompressionLimits) -> _Decompressor:
    if len(body) > offset + 3 and body[offset + 3] & 0xE0:  # isal accepts reserved flags; RFC 1952 (2.3.1.2) does not
        raise BadRequest("The body is not valid gzip.")
    member: _Decompressor = _zlib.decompressobj(16 + zlib.MAX_WBITS)
    return member


def _deflate(body: bytes, offset: int, _limits: DecompressionLimits) -> _Decompressor:
    if offset:
        raise BadRequest("The deflate body is followed by other data.")
    # RFC 1950: method 8, and the first two bytes as a number are a multiple of 31.
    wrapped = len(body) < 2 or (body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0)
    member: _Decompressor = _zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    return member


def _zstd(body: bytes, offset: int, limits: DecompressionLimits) -> _Decompressor:
    window_log = limits.max_window_bytes.bit_length() - 1
    if _zstd_window_bytes(body, offset) > 1 << window_log:
        raise PayloadTooLarge(f"The zstd window is larger than {1 << window_log} bytes.")
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})


def _zstd_window_bytes(body: bytes, offset: int) -> int:
    """Window of the frame at `offset` in bytes (RFC 8878, 3.1.1.1); 0 if the header cannot be read."""
    head = body[offset : offset + 14]
    if len(head) < 6 or head[:4] != _ZSTD_FRAME:
        return 0
    descriptor = head[4]
    if not descriptor & 0x20:
        base = 1 << (10 + (head[5] >> 3))
        return base + base // 8 * (head[5] & 7)
    # A single segment has no window field: the window is the content size, which follows the dictionary id.
    at = 5 + (0, 1, 2, 4)[descriptor & 3]
    size = (1, 2, 4, 8)[descriptor >> 6]
    return int.from_bytes(head[at : at + size], "little") + (256 if size == 2 else 0)


_DECOMPRESSORS: Final[Mapping[str, Callable[[bytes, int, DecompressionLimits], _Decompressor]]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
