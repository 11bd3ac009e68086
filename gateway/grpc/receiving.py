"""Receives the single message of a call within a time, and within the memory budget.

The core buffers a message until it is complete and does not say how much of it has arrived. So a message is charged as
follows: the flow-control window, which the client may fill before the message is read; if it is not complete within
GRACE_S, the largest message; once it is complete, its size.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from grpc import aio

from chassis.errors import BadRequest, ServiceUnavailable
from chassis.http.preparse import Slot
from gateway.admission.memory_budget import Lease
from gateway.decompression import IDENTITY
from gateway.grpc.options import WINDOW_BYTES
from gateway.grpc.status import Context

GRACE_S: Final = 0.25
TOO_SLOW: Final = "The message was not received in time."
ENDED: Final = "The call has ended."  # the server has stopped, or the client is gone: nobody reads this
_GZIP_MAGIC: Final = b"\x1f\x8b"


class MessageReceiver:
    """Messages of at most `max_bytes`, which the core enforces, within `timeout_s`."""

    def __init__(self, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def receive(self, context: Context, lease: Lease, slot: Slot) -> tuple[str, bytes]:
        """The encoding of the message, and the message as the client compressed it. `lease` then holds its size, and
        `slot` knows that the rest is up to us.

        Raises BadRequest unless the stream has exactly one message, ServiceUnavailable when it does not end in time or
        the budget is used up.
        """
        lease.set(WINDOW_BYTES)
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                message = await self._read(context, lease, limit, held=0)
                if message is None:
                    raise BadRequest("The request has no message, or its client has cancelled it.")
                lease.set(len(message))
                if await self._read(context, lease, limit, held=len(message)) is not None:
                    raise BadRequest("The request has more than one message.")
        except TimeoutError as error:
            raise ServiceUnavailable(TOO_SLOW) from error
        except aio.BaseError as error:
            raise ServiceUnavailable(ENDED) from error
        lease.set(len(message))
        slot.on_body_received()
        return message_encoding(message), message

    async def _read(self, context: Context, lease: Lease, limit: asyncio.Timeout, *, held: int) -> bytes | None:
        """The next message; None at the end of the stream. `held`: bytes of an earlier message."""
        with _charged_when_slow(lease, held + self._max_bytes, limit):
            message: bytes | object = await context.read()
        return message if isinstance(message, bytes) else None  # the object is grpc.aio.EOF


@contextmanager
def _charged_when_slow(lease: Lease, nbytes: int, limit: asyncio.Timeout) -> Iterator[None]:
    """Charge `nbytes` if the block takes longer than GRACE_S. If the budget lacks them, `limit` expires and the block
    raises ServiceUnavailable.
    """
    refusals: list[ServiceUnavailable] = []
    loop = asyncio.get_running_loop()

    def charge() -> None:
        try:
            lease.set(nbytes)
        except ServiceUnavailable as error:
            refusals.append(error)
            limit.reschedule(loop.time())

    timer = loop.call_later(GRACE_S, charge)
    try:
        yield
    except asyncio.CancelledError:
        if refusals:
            raise refusals[0] from None
        raise
    finally:
        timer.cancel()


def message_encoding(message: bytes) -> str:
    """`gzip` or `identity`. A client may leave single messages uncompressed, and gRPC does not pass on which ones. The
    first byte of gzip says: as a protobuf tag it has a wire type that does not exist (7).
    """
    return "gzip" if message.startswith(_GZIP_MAGIC) else IDENTITY
