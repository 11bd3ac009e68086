"""What a batch of requests is in ClickHouse: one block per table and day, each with its token."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from gateway.exceptions import occurrence_blocks
from gateway.inserts.insert_block import InsertBlock
from gateway.outcomes import OutcomeSums, outcome_block
from proto.otlp.codec import NamedKeySet, build_blocks
from proto.otlp.policy import DecodedPayload
from proto.storage.tables import LOGS, SPANS

MAIN_TABLES: Final = frozenset((SPANS.name, LOGS.name))

_MAX_LIGHT_SYMBOLS: Final = 100_000  # of a batch; a million of them take seconds

TableDay = tuple[str, int]  # table and day: one block of a batch


class DecodedRequest(Protocol):
    """A decoded request, and how long its body was on the wire."""

    @property
    def decoded(self) -> DecodedPayload: ...
    @property
    def wire_bytes(self) -> int: ...


R = TypeVar("R", bound=DecodedRequest)


def build_insert_blocks(
    requests: Sequence[DecodedRequest], batch_id: int, accepted_ms: int, named_keys: NamedKeySet | None = None
) -> list[InsertBlock]:
    """All blocks of a batch: spans and logs first, then what is derived from them. The same requests in the same order
    give the same blocks; but which attribute keys have rows of their own depends on those that were `named` before.
    `accepted_ms`: the time of their outcomes. Takes milliseconds, so it runs in a thread.
    """
    decoded = [request.decoded for request in requests]
    sums = OutcomeSums()
    for request in requests:
        sums.add_answered(request.decoded, request.wire_bytes)
    blocks = [
        *build_blocks(decoded, batch_id, named_keys),
        *occurrence_blocks(decoded, batch_id),
        outcome_block(sums.rows(), batch_id, accepted_ms),
    ]
    sealed = [InsertBlock(batch_id, block) for block in blocks]
    return sorted(sealed, key=lambda block: block.block.table not in MAIN_TABLES)


def is_light(requests: Sequence[DecodedRequest]) -> bool:
    """Whether making the blocks of a batch takes no longer than others are to wait for it."""
    return sum(request.decoded.symbols for request in requests) < _MAX_LIGHT_SYMBOLS


def bisect_batch(requests: Sequence[R]) -> list[Sequence[R]]:
    """A batch with a block that is refused, taken apart: by project; the requests of one project by halves."""
    projects: dict[int, list[R]] = {}
    for request in requests:
        projects.setdefault(request.decoded.project_id, []).append(request)
    if len(projects) > 1:
        return list(projects.values())
    middle = len(requests) // 2
    return [requests[:middle], requests[middle:]]
