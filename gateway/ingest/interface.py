"""What becomes of a decoded request before it is answered: the mode of durability, behind one interface.

journal   on disk, with others in one sync; stored in ClickHouse afterwards (`gateway.ingest`)
store     a row in ClickHouse (`gateway.inserts.lane_router`)
memory    in a bounded queue; what the process holds is lost with it (`gateway.ingest`, without a journal)
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from chassis.runtime.health import Dependency
from gateway.journal import JournaledRequest
from proto.otlp.policy import DecodedPayload


class AcceptedRequest(NamedTuple):
    """A request with at least one accepted item: as it came, its columns, and how long its body was on the wire."""

    request: JournaledRequest
    decoded: DecodedPayload
    wire_bytes: int


class Ingest(Protocol):
    """Takes requests under a promise. Both methods raise ApiError when they do not."""

    @property
    def needs_raw_body(self) -> bool:
        """Whether it wants the body as it came."""

    def admit(self) -> None:
        """Refuse a request before its body is read: ServiceUnavailable while none could be taken."""

    async def submit(self, accepted: AcceptedRequest) -> None:
        """Returns when the promise of a 200 holds."""

    def dependencies(self) -> Sequence[Dependency]:
        """What `/readyz` is to ask."""

    async def start(self) -> None:
        """Begin to work on what is taken. Raises StartupError."""

    async def close(self) -> None:
        """Store what can be stored in time; every request has its answer."""
