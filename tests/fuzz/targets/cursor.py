"""Page cursors: what was signed opens to the same, and nothing else opens.

An input is a binding up to the first NUL, and then text, or a payload in MessagePack that is signed.
"""

from typing import Final

import msgspec

from chassis.errors import BadRequest
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner, CursorValue
from chassis.runtime.key_file import KEY_BYTES

_SIGNER: Final = CursorSigner(bytes(range(KEY_BYTES)))
_OTHER: Final = CursorSigner(bytes(KEY_BYTES))
# Never asked to sign: a fuzzer that watches comparisons learns what another has signed, and repeats it.
_SILENT: Final = CursorSigner(bytes(range(1, KEY_BYTES + 1)))
_VALUES: Final = frozenset({str, int, bytes, type(None)})


def check(data: bytes) -> None:
    binding, _, rest = data.partition(b"\0")
    refused(_SILENT, rest.decode(errors="surrogateescape"), binding)
    refused(_SILENT, rest.decode("latin-1"), binding)
    try:
        payload = msgspec.msgpack.decode(rest)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    if not isinstance(payload, list) or not all(type(each) in _VALUES for each in payload):
        return
    check_round_trip(tuple(payload), binding)


def check_round_trip(payload: tuple[CursorValue, ...], binding: bytes) -> None:
    try:
        text = _SIGNER.sign(payload, binding)
    except ValueError:
        assert len(msgspec.msgpack.encode(payload)) > 350
        return
    assert len(text) <= MAX_CURSOR_LENGTH
    assert _SIGNER.open(text, binding) == payload
    refused(_OTHER, text, binding)
    refused(_SIGNER, text, binding + b"x")
    for altered in (
        text[:-1],
        text + "A",
        text + "=",
        text[1:],
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        " " + text,
    ):
        refused(_SIGNER, altered, binding)
    try:
        _SIGNER.open(text, binding, tuple[int, str])
    except BadRequest:
        assert [type(each) for each in payload] != [int, str]


def refused(signer: CursorSigner, text: str, binding: bytes) -> None:
    try:
        signer.open(text, binding)
    except BadRequest:
        return
    raise AssertionError(f"opened: {text!r}")
