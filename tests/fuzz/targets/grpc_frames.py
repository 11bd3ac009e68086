"""HTTP/2 frames of a client before it is authorised: the same verdict however the bytes are cut, and no more of
anything than is allowed passes.

An input: a byte that chooses how it is cut, and what a client sends. A plain reading of the frames says what must come
of it.
"""

from random import Random
from typing import Final

from gateway.grpc.framing import (
    CONTINUATION,
    DATA,
    FRAMES_AT_ONCE,
    HEADERS,
    MAX_FRAME_BYTES,
    MAX_HEADER_BLOCK_BYTES,
    PREFACE_BYTES,
    PUSH_PROMISE,
    ConnectionFraming,
    Fault,
)

END_HEADERS: Final = 4


def check(data: bytes) -> None:
    sent, random = data[1:], Random(data[:1])
    whole, framing = _verdict([sent])
    for size in (1, 9, random.randint(2, 40), random.randint(41, 700)):
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        fault, other = _verdict(pieces)
        assert fault == whole, size
        if whole is None:
            assert _state(other) == _state(framing), size
    if whole is None:
        _check_passed(sent, framing)


def _verdict(pieces: list[bytes]) -> tuple[Fault | None, ConnectionFraming]:
    framing = ConnectionFraming(0)
    for piece in pieces:
        if piece and (fault := framing.from_client(piece, 0)) is not None:
            return fault, framing
    return None, framing


def _state(framing: ConnectionFraming) -> tuple[object, ...]:
    return (
        *(framing.streams, framing.last_stream, framing.unit, framing.owes_bytes, framing.has_preface),
        *(framing.is_inside_data, framing.is_inside_headers),
    )


def _check_passed(sent: bytes, framing: ConnectionFraming) -> None:
    """What was not refused, read anew."""
    assert sent[: len(PREFACE_BYTES)] == PREFACE_BYTES[: len(sent)]
    at, block, block_bytes, opened, others = len(PREFACE_BYTES), 0, 0, set[int](), 0
    while at + 9 <= len(sent):
        size = int.from_bytes(sent[at : at + 3], "big")
        kind, flags = sent[at + 3], sent[at + 4]
        stream = int.from_bytes(sent[at + 5 : at + 9], "big") & 0x7FFF_FFFF
        at += 9 + size
        assert size <= MAX_FRAME_BYTES
        assert kind != PUSH_PROMISE
        assert (kind == CONTINUATION) is bool(block)
        assert not block or stream == block
        if kind in (HEADERS, CONTINUATION):
            block_bytes = 9 + size + (block_bytes if kind == CONTINUATION else 0)
            assert block_bytes <= MAX_HEADER_BLOCK_BYTES
            block = 0 if flags & END_HEADERS else stream
            opened.add(stream)
        elif kind != DATA:
            others += 1
    assert others <= FRAMES_AT_ONCE
    assert framing.streams.keys() <= opened
    assert framing.owes_bytes == (len(sent) < len(PREFACE_BYTES) or at != len(sent) or bool(block))
