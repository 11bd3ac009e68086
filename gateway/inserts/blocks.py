"""Builds the blocks of a batch: one per table and day, each with its token."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from prometheus_client import Counter

from chassis.source_maps.resolver import SourceMaps
from gateway.error_occurrences import occurrence_blocks
from gateway.inserts.insert_block import InsertBlock
from gateway.outcomes import OutcomeSums, outcome_block
from proto.otlp.codec import NamedKeySet, build_blocks
from proto.otlp.policy import DecodedPayload
from proto.storage.tables import LOGS, SPANS

MAIN_TABLES: Final = frozenset((SPANS.name, LOGS.name))

_MAX_LIGHT_SYMBOLS: Final = 100_000  # distinct keys and names of a batch; a million of them take seconds

TableDay = tuple[str, int]  # table and day: one block of a batch


class DecodedRequest(Protocol):
    """A decoded request, and the length of its body on the wire."""

    @property
    def decoded(self) -> DecodedPayload: ...
    @property
    def wire_bytes(self) -> int: ...


R = TypeVar("R", bound=DecodedRequest)


def build_insert_blocks(
    requests: Sequence[DecodedRequest],
    batch_id: int,
    accepted_ms: int,
    named_keys: NamedKeySet | None = None,
    source_maps: SourceMaps | None = None,
    fingerprint_failures: Counter | None = None,
) -> list[InsertBlock]:
    """All blocks of a batch: spans and logs first, then the derived rows. The same requests in the same order give the
    same blocks, except that `named_keys` decides which attribute keys have rows of their own, and `source_maps` which
    fingerprints errors of JavaScript have. `accepted_ms` is the time of the outcomes. Takes milliseconds, or a second
    where source maps must be read, so call it in a thread.
    """
    decoded = [request.decoded for request in requests]
    sums = OutcomeSums()
    for request in requests:
        sums.add_answered(request.decoded, request.wire_bytes)
    blocks = [
        *build_blocks(decoded, batch_id, named_keys),
        *occurrence_blocks(decoded, batch_id, source_maps, fingerprint_failures),
        outcome_block(sums.rows(), batch_id, accepted_ms),
    ]
    insert_blocks = [InsertBlock(batch_id, block) for block in blocks]
    return sorted(insert_blocks, key=lambda block: block.block.table not in MAIN_TABLES)


def is_light(requests: Sequence[DecodedRequest]) -> bool:
    """Whether the blocks of a batch are built fast enough for other batches to wait for them in the same thread."""
    return sum(request.decoded.symbols for request in requests) < _MAX_LIGHT_SYMBOLS


def bisect_batch(requests: Sequence[R]) -> list[Sequence[R]]:
    """Split a batch with a refused block: by project, or the requests of a single project into halves."""
    projects: dict[int, list[R]] = {}
    for request in requests:
        projects.setdefault(request.decoded.project_id, []).append(request)
    if len(projects) > 1:
        return list(projects.values())
    middle = len(requests) // 2
    return [requests[:middle], requests[middle:]]
