"""The frames that a client may send: verdicts over bytes, however they are cut."""

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.grpc.framing import (
    FRAME_ORDER,
    FRAME_RATE,
    FRAME_SIZE,
    FRAME_TYPE,
    FRAMES_AT_ONCE,
    FRAMES_PER_CALL,
    FRAMES_PER_S,
    HEADER_BLOCK,
    MAX_FRAME_BYTES,
    MAX_HEADER_BLOCK_BYTES,
    MAX_OPEN_STREAMS,
    PREFACE,
    STREAMS,
    UNKNOWN_COST,
    ConnectionFraming,
    Fault,
    goaway,
)
from tests.gateway.grpc import frames
from tests.gateway.grpc.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    UNKNOWN,
    WINDOW_UPDATE,
    frame,
)

BLOCK = b"\x83\x86"
CALL = frame(HEADERS, END_HEADERS, 1, BLOCK)
TWO_CALLS = CALL + frame(HEADERS, END_HEADERS | END_STREAM, 3, BLOCK)  # the second is sent
ANSWER = frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88")
PREFIX = frames.PREFACE + frame(SETTINGS, 0, 0)  # which takes one of the allowance
LEFT = FRAMES_AT_ONCE - 1


def verdict(data: bytes, cuts: list[int] | None = None) -> Fault | None:
    """Of a client that sends this at once, or cut at these places."""
    framing = ConnectionFraming(0)
    places = [0, *sorted(place % (len(data) + 1) for place in cuts or ()), len(data)]
    for begin, end in itertools.pairwise(places):
        if begin < end and (fault := framing.from_client(data[begin:end], 0)) is not None:
            return fault
    return None


def block(sizes: list[int], last_flags: int = END_HEADERS) -> bytes:
    """A header block in frames of these sizes."""
    kinds = [HEADERS, *[CONTINUATION] * (len(sizes) - 1)]
    flags = [*[0] * (len(sizes) - 1), last_flags]
    return b"".join(frame(kind, flag, 1, bytes(size)) for kind, flag, size in zip(kinds, flags, sizes, strict=True))


def calls(first: int, count: int) -> bytes:
    """So many calls are begun, from this stream on."""
    return b"".join(frame(HEADERS, END_HEADERS, first + 2 * number, BLOCK) for number in range(count))


FULL = MAX_HEADER_BLOCK_BYTES // 2 - 9  # two such frames are the longest block

VERDICTS: dict[str, tuple[bytes, Fault | None]] = {
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", PREFACE),
    "another preface": (frames.PREFACE[:-1] + b"x", PREFACE),
    "one byte": (b"\x16", PREFACE),
    "a call": (PREFIX + CALL + frame(DATA, END_STREAM, 1, b"x"), None),
    "the reserved bit of a stream": (PREFIX + CALL + frame(DATA, 0, 1 | 2**31, b"x") * (FRAMES_AT_ONCE + 1), None),
    "the largest frame": (PREFIX + CALL + frame(DATA, 0, 1, bytes(MAX_FRAME_BYTES)), None),
    "a larger frame": (PREFIX + CALL + frame(DATA, 0, 1, bytes(MAX_FRAME_BYTES + 1)), FRAME_SIZE),
    "a larger frame of an unknown type": (PREFIX + frame(UNKNOWN, 0, 1, bytes(MAX_FRAME_BYTES + 1)), FRAME_SIZE),
    "a larger header of a frame alone": (PREFIX + b"\xff\xff\xff" + bytes(6), FRAME_SIZE),
    "a promise": (PREFIX + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)), FRAME_TYPE),
    "the longest block": (PREFIX + block([FULL, FULL]), None),
    "a longer block": (PREFIX + block([FULL, FULL + 1]), HEADER_BLOCK),
    "a block without an end": (PREFIX + block([FULL, FULL, 0], 0), HEADER_BLOCK),
    "empty continuations": (PREFIX + block([0] * (MAX_HEADER_BLOCK_BYTES // 9 + 1), 0), HEADER_BLOCK),
    "several blocks": (PREFIX + block([FULL, 1]) * 3, None),
    "a frame in a block": (PREFIX + block([1], 0) + frame(DATA, 0, 1, b"x"), FRAME_ORDER),
    "a ping in a block": (PREFIX + block([1], 0) + frame(PING, 0, 0, bytes(8)), FRAME_ORDER),
    "a block in a block": (PREFIX + block([1], 0) + frame(HEADERS, END_HEADERS, 3, BLOCK), FRAME_ORDER),
    "a continuation of another stream": (PREFIX + block([1], 0) + frame(CONTINUATION, 4, 3, b"x"), FRAME_ORDER),
    "a continuation of nothing": (PREFIX + CALL + frame(CONTINUATION, 4, 1, b"x"), FRAME_ORDER),
    "data of a call that was never begun": (PREFIX + CALL + frame(DATA, 0, 3, b"x"), FRAME_ORDER),
    "the reset of one": (PREFIX + CALL + frame(RST_STREAM, 0, 3, bytes(4)), FRAME_ORDER),
    "a continuation of the connection": (PREFIX + CALL + frame(CONTINUATION, 4, 0, b"x"), FRAME_ORDER),
    "headers of the connection": (PREFIX + frame(HEADERS, 0, 0, BLOCK), FRAME_ORDER),
    "as many open calls as may be": (PREFIX + calls(1, MAX_OPEN_STREAMS), None),
    "more open calls": (PREFIX + calls(1, MAX_OPEN_STREAMS + 1), STREAMS),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(name: str) -> None:
    data, expected = VERDICTS[name]
    assert verdict(data) == expected
    random = Random(name)
    for _ in range(5):
        assert verdict(data, [random.randrange(len(data)) for _ in range(20)]) == expected
    if len(data) < 2_000:
        assert verdict(data, list(range(len(data)))) == expected


UNASKED = {
    "settings": frame(SETTINGS, 0, 0, bytes(6)),
    "acknowledged settings": frame(SETTINGS, ACK, 0),
    "pings": frame(PING, 0, 0, bytes(8)),
    "acknowledged pings": frame(PING, ACK, 0, bytes(8)),
    "priorities": frame(PRIORITY, 0, 5, bytes(5)),
    "windows": frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "resets": frame(RST_STREAM, 0, 3, bytes(4)),
    "goodbyes": frame(GOAWAY, 0, 0, bytes(8)),
    "empty data": frame(DATA, 0, 1),
    "data of no call": frame(DATA, 0, 3, b"x"),
    "an end of no call": frame(DATA, END_STREAM, 3),
    "trailers of no call": frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK),
}


@pytest.mark.parametrize("name", UNASKED)
def test_frames_that_no_call_needs_have_an_allowance_that_time_and_answers_renew(name: str) -> None:
    framing, one = ConnectionFraming(0), UNASKED[name]
    assert framing.from_client(PREFIX + TWO_CALLS + one * LEFT, 0) is None
    assert framing.from_client(one * int(FRAMES_PER_S), 1) is None
    framing.from_core(ANSWER)
    assert framing.from_client(calls(5, 100) + one * FRAMES_PER_CALL, 1) is None
    assert framing.from_client(one, 1) == FRAME_RATE


def test_the_allowance_has_a_limit() -> None:
    framing = ConnectionFraming(0)
    assert framing.from_client(PREFIX, 0) is None
    assert framing.from_client(UNASKED["pings"] * FRAMES_AT_ONCE, 10**6) is None
    assert framing.from_client(UNASKED["pings"], 10**6) == FRAME_RATE


def test_calls_that_are_reset_earn_nothing() -> None:
    """Whichever side resets them."""
    for side in ("client", "core"):
        framing, begun = ConnectionFraming(0), 0
        fault = framing.from_client(PREFIX, 0)
        while fault is None:
            stream = 2 * begun + 1
            fault = framing.from_client(frame(HEADERS, END_HEADERS, stream, BLOCK), 0)
            reset = frame(RST_STREAM, 0, stream, bytes(4))
            if side == "core":
                framing.from_core(reset)
            elif fault is None:
                fault = framing.from_client(reset, 0)
            begun += 1
        assert (fault, framing.streams.keys() - {2 * begun - 1}) == (FRAME_RATE, set())
        assert FRAMES_AT_ONCE <= begun <= FRAMES_AT_ONCE + 1


def test_what_the_core_ends_is_no_open_call() -> None:
    framing = ConnectionFraming(0)
    framing.from_client(PREFIX + CALL + frame(HEADERS, END_HEADERS, 3, BLOCK), 0)
    assert framing.streams == {1: True, 3: True}
    for piece in (ANSWER[:4], ANSWER[4:] + frame(RST_STREAM, 0, 1, bytes(4))[:11]):
        framing.from_core(piece)
    assert (framing.streams, framing.core_is_between_frames) == ({3: True}, False)
    framing.from_core(bytes(2) + frame(DATA, END_STREAM, 3, b"x"))
    assert (framing.streams, framing.core_is_between_frames, framing.last_stream) == ({}, True, 3)


def test_a_client_owes_what_it_has_begun() -> None:
    framing = ConnectionFraming(0)
    owed = [framing.owes_bytes]
    body = frame(DATA, END_STREAM, 1, b"xy")
    for piece in (
        frames.PREFACE[:5],
        frames.PREFACE[5:],
        CALL[:8],
        CALL[8:],
        block([2], 0)[:-1],
        b"x",
        frame(CONTINUATION, END_HEADERS, 1, b"x"),
        body[:10],
        body[10:],
    ):
        assert framing.from_client(piece, 0) is None
        owed.append(framing.owes_bytes)
        assert framing.is_inside_data == (piece == body[:10])
    assert owed == [True, True, False, True, False, True, True, False, True, False]


def test_the_goodbye_is_a_frame() -> None:
    assert frames.frames_of(goaway(7, 11)) == [(GOAWAY, 0, 0, b"\0\0\0\7\0\0\0\x0b")]


kinds = st.sampled_from(
    [DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, UNKNOWN]
)
any_frame = st.builds(
    frame, kinds, st.sampled_from([0, 1, 4, 5, 255]), st.integers(0, 9), st.integers(0, 40).map(bytes)
)


COSTS = {
    "an unknown type": (frame(UNKNOWN, 0, 0), UNKNOWN_COST),
    "an unknown type, long": (frame(UNKNOWN, 0, 0, bytes(MAX_FRAME_BYTES)), UNKNOWN_COST),
    "long settings": (frame(SETTINGS, 0, 0, bytes(MAX_FRAME_BYTES)), 65),
    "long data of a call that is sent": (frame(DATA, 0, 3, bytes(MAX_FRAME_BYTES)), 5),
}


def test_what_is_longer_or_unknown_costs_more() -> None:
    for name, (one, cost) in COSTS.items():
        framing = ConnectionFraming(0)
        assert framing.from_client(PREFIX + TWO_CALLS + one * (LEFT // cost), 0) is None, name
        assert framing.from_client(one, 0) == FRAME_RATE, name


@given(st.lists(any_frame, max_size=30).map(b"".join), st.binary(max_size=30), st.lists(st.integers(0, 2_000)))
def test_any_cut_gives_the_same_verdict(sent: bytes, rest: bytes, cuts: list[int]) -> None:
    data = PREFIX + sent + rest
    assert verdict(data, cuts) == verdict(data)


@st.composite
def call(draw: st.DrawFn) -> list[tuple[int, int, bytes]]:
    """Type, flags and payload of the frames that a legitimate client sends for one call, and beside it."""
    head = draw(st.sampled_from([(1,), (9_000,), (MAX_FRAME_BYTES,), (1, 1), (MAX_FRAME_BYTES, 0, 7)]))
    body = draw(st.sampled_from([(), (1,), (0,), (MAX_FRAME_BYTES, 5), (7, 7, 0)]))
    sent = [(CONTINUATION if at else HEADERS, 0, bytes(size)) for at, size in enumerate(head)]
    sent[-1] = (sent[-1][0], END_HEADERS, sent[-1][2])
    sent += [(DATA, END_STREAM if at == len(body) - 1 else 0, bytes(size)) for at, size in enumerate(body)]
    beside = draw(st.lists(st.sampled_from([PING, WINDOW_UPDATE, SETTINGS, PRIORITY]), max_size=FRAMES_PER_CALL - 1))
    return [*sent, *((kind, 0, bytes(8)) for kind in beside)]


@given(st.lists(call(), min_size=1, max_size=5))
def test_what_legitimate_clients_send_is_never_refused(sent: list[list[tuple[int, int, bytes]]]) -> None:
    """Though each call brings pings and windows of its own, and all of them come at one moment."""
    framing = ConnectionFraming(0)
    assert framing.from_client(PREFIX, 0) is None
    for number in range(60):
        stream = 2 * number + 1
        for kind, flags, payload in sent[number % len(sent)]:
            of_call = kind in (DATA, HEADERS, CONTINUATION)
            assert framing.from_client(frame(kind, flags, stream if of_call else 0, payload), 0) is None
        framing.from_core(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88"))
    assert framing.streams == {}
