"""Inflation of any bytes under small limits, against a decompression of its own that feeds one chunk at a time.

An input: a byte for the encoding, one for the limits, one for the size of the oracle's chunks, and the body.
"""

import zlib
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from backports import zstd
from isal import isal_zlib

from chassis.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from gateway import decompression as subject
from gateway.decompression import ENCODINGS, IDENTITY, DecompressionLimits

HEAD: Final = 3
MAX_BYTES: Final = (0, 1, 100, 4096, 70_000)
MAX_MEMBERS: Final = (1, 2, 16)
MAX_WINDOWS: Final = (2**10, 2**17, 2**20 + 5)
_STEP: Final = 2**16
_ISAL_ERROR: Final[Any] = isal_zlib.error  # its stub says that it is an instance
_FAULTS: Final = (zlib.error, zstd.ZstdError, _ISAL_ERROR)


def check(data: bytes) -> None:
    head, body = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    choice = head[0] % (len(ENCODINGS) + 2)
    if choice == len(ENCODINGS) + 1:
        _check_header(body)
        return
    encoding = (*ENCODINGS, IDENTITY)[choice]
    limits = _limits(head[1])
    try:
        inflated = subject.decompress(encoding, body, limits)
    except PayloadTooLarge:
        assert _passes_a_limit(encoding, body, limits)
    except BadRequest:
        assert any(fault for _, fault in _readings(encoding, body, head[2], limits)), "refused, and sound"
    else:
        assert len(inflated) <= limits.max_bytes
        assert (inflated, None) in _readings(encoding, body, head[2], limits), "inflated otherwise"


def _readings(encoding: str, body: bytes, chunk: int, limits: DecompressionLimits) -> list[tuple[bytes, str | None]]:
    """What the oracle makes of it. Some faults libzstd finds only when it has the whole frame, and room for all that
    comes out, at once, and isal reads incomplete code lengths that zlib refuses; so there may be two answers.
    """
    readings = [_oracle(encoding, body, size)[:2] for size in {1, chunk + 1, _STEP}]
    readings += [_oracle(encoding, body, size, library=isal_zlib)[:2] for size in {1, _STEP}]
    if encoding == "zstd":
        readings.append(_oracle(encoding, body, _STEP, limits.max_bytes + 1, bounded=True)[:2])
    return readings


def _limits(choice: int) -> DecompressionLimits:
    choice, size = divmod(choice, len(MAX_BYTES))
    choice, members = divmod(choice, len(MAX_MEMBERS))
    return DecompressionLimits(MAX_BYTES[size], MAX_MEMBERS[members], MAX_WINDOWS[choice % len(MAX_WINDOWS)])


def _check_header(raw: bytes) -> None:
    try:
        found = subject.content_encoding(raw.decode(errors="surrogateescape").split("\n") if raw else [])
    except UnsupportedMediaType:
        return
    assert found in (IDENTITY, *ENCODINGS)


def _passes_a_limit(encoding: str, body: bytes, limits: DecompressionLimits) -> bool:
    """Whether more comes out, or more has to go in, than may; byte by byte shows what comes before a fault."""
    whole = (_STEP, encoding == "zstd", zlib)
    for chunk, bounded, library in ((1, False, zlib), (1, False, isal_zlib), (_STEP, False, zlib), whole):
        out, _, members, window = _oracle(encoding, body, chunk, limits.max_bytes + 1, bounded=bounded, library=library)
        if len(out) > limits.max_bytes or members > limits.max_frames:
            return True
        if window > 1 << (limits.max_window_bytes.bit_length() - 1):
            return True
    return False


def _oracle(
    encoding: str, body: bytes, chunk: int, most: int = 2**26, *, bounded: bool = False, library: Any = zlib
) -> tuple[bytes, str | None, int, int]:
    """What comes out (up to about `most`), the first fault, the members begun, and the largest window of zstd.
    `bounded`: libzstd may not give more than `most` at once.
    """
    if encoding == IDENTITY:
        return body, None, 1, 0
    out, at, members, window = b"", 0, 0, 0
    while (at < len(body) or not members) and len(out) < most:
        members += 1
        if encoding == "deflate" and members > 1:
            return out, "followed", members, window
        if encoding == "zstd":
            window = max(window, _window(body[at:]))
        member = _begin(encoding, body, library)
        try:
            while not member.eof:
                if at >= len(body):
                    return out, "truncated", members, window
                fed = body[at : at + chunk]
                at += len(fed)
                out += member.decompress(fed, most - len(out)) if bounded else member.decompress(fed)
        except _FAULTS as error:
            return out, str(error), members, window
        at -= len(member.unused_data)
    return out, None, members, window


def _begin(encoding: str, body: bytes, library: Any) -> Any:
    if encoding == "zstd":
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 27})
    if encoding == "gzip":
        return library.decompressobj(31)
    try:  # the zlib format where its header is one
        zlib.decompressobj(15).decompress(body[:2])
    except zlib.error:
        return library.decompressobj(-15)
    return library.decompressobj(15)


def _window(frame: bytes) -> int:
    """As the frame's header says it (RFC 8878, 3.1.1.1); the smallest window that reads it would take gigabytes."""
    return subject._zstd_window_bytes(frame, 0)


class _Counted:
    """A decompressor that may not give more than is allowed, however it is asked."""

    def __init__(self, inner: Any, most: int) -> None:
        self._inner = inner
        self._left = most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def decompress(self, data: Any, max_length: int) -> bytes:
        out: bytes = self._inner.decompress(data, max_length)
        self._left -= len(out)
        assert self._left >= 0, "more was inflated than may come out"
        return out


def _counting(start: Callable[..., Any]) -> Callable[..., Any]:
    return lambda body, offset, limits: _Counted(start(body, offset, limits), limits.max_bytes + 1)


_PACK: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "gzip": lambda data, level: zlib.compress(data, level, wbits=31),
    "deflate": lambda data, level: zlib.compress(data, level, wbits=-15 if level % 2 else 15),
    "zstd": zstd.compress,
}


def mutate(data: bytes, max_size: int, random: Random, mutate: Callable[[bytes, int], bytes]) -> bytes:
    """Mostly bytes; at times what is inside, packed again, or a further member."""
    head, body = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    choice = head[0] % (len(ENCODINGS) + 2)
    if choice >= len(ENCODINGS) or random.random() < 0.6:
        return mutate(data, max_size)
    encoding = ENCODINGS[choice]
    pack = _PACK[encoding]
    way = random.randrange(4)
    if way == 0:
        body += pack(random.randbytes(random.randrange(9)), 1)
    elif way == 1:
        body = pack(bytes((random.randrange(256),)) * random.choice((*MAX_BYTES, *(size + 1 for size in MAX_BYTES))), 3)
    else:
        inside = _oracle(encoding, body, _STEP, 2**16)[0][: 2**16]
        body = pack(mutate(inside, 2 * len(inside) + 9) if inside else random.randbytes(9), random.randrange(10))
    return (head + body)[:max_size]


subject.__dict__["_STARTS"] = {name: _counting(start) for name, start in subject._DECOMPRESSORS.items()}
