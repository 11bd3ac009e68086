"""The position of a client in a tail, as the text `next` that it hands back as `after`.

It is neither secret nor signed: it only says what the client need not be shown.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from query.timestamps import MAX_NANOS

MAX_POSITION: Final = 2_800  # characters
_MAX_BYTES: Final = 2_000  # of what is remembered; some 300 rows of few batches
_ANSWER_BYTES: Final = 15
_BATCH_BYTES: Final = 14
_ROW_BYTES: Final = 5

_Nanos = Annotated[int, Meta(ge=0, le=MAX_NANOS)]
_Row = Annotated[int, Meta(ge=0, le=2**32 - 1)]
RowId = tuple[int, int]  # batch and row


class ShownRows(NamedTuple):
    """The rows of one answer, by batch; none of them ended after `last_end_ns`."""

    last_end_ns: _Nanos
    rows: list[tuple[Annotated[int, Meta(ge=0)], list[_Row]]]


class TailPosition(NamedTuple):
    """What a client was shown up to `now_ns`: everything that ended at `floor_ns` or before counts as shown, and
    `answers` name those that ended later.
    """

    now_ns: _Nanos
    floor_ns: _Nanos
    answers: list[ShownRows]

    @property
    def row_ids(self) -> tuple[RowId, ...]:
        """The rows that are remembered."""
        return tuple((batch, row) for each in self.answers for batch, rows in each.rows for row in rows)


def next_position(
    previous: TailPosition | None, now_ns: int, floor_ns: int, shown: Sequence[tuple[int, RowId]]
) -> TailPosition:
    """The position after an answer with the rows `shown`: (end, id), those that ended last first."""
    kept, budget = list[ShownRows](), _MAX_BYTES
    rows, last_end_ns = dict[int, list[int]](), 0
    for end_ns, (batch, row) in shown:
        if end_ns <= floor_ns:
            break
        budget -= _ROW_BYTES + (0 if batch in rows else _BATCH_BYTES) + (0 if rows else _ANSWER_BYTES)
        if budget < 0:
            floor_ns = end_ns
            break
        rows.setdefault(batch, []).append(row)
        last_end_ns = last_end_ns or end_ns
    if rows:
        kept.append(ShownRows(last_end_ns, list(rows.items())))
    for answer in sorted(() if previous is None else previous.answers, reverse=True):
        if answer.last_end_ns <= floor_ns:
            break
        budget -= _ANSWER_BYTES + sum(_BATCH_BYTES + _ROW_BYTES * len(each) for _, each in answer.rows)
        if budget < 0:
            floor_ns = answer.last_end_ns
            break
        kept.append(answer)
    return TailPosition(now_ns, floor_ns, kept)


def encode_position(position: TailPosition) -> str:
    """At most MAX_POSITION URL-safe characters."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(position)).rstrip(b"=").decode("ascii")


def decode_position(text: str) -> TailPosition | None:
    """None for a text that is no position."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(raw, type=TailPosition)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return None
