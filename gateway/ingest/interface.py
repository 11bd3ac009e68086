"""The durability mode: where a decoded request is before it is answered, behind one interface.

journal   on disk, with others in one sync; stored in ClickHouse afterwards (`gateway.ingest.journaled`)
store     rows in ClickHouse (`gateway.ingest.synchronous`)
memory    in a bounded queue, which is lost with the process (`gateway.ingest.journaled`, without a journal)
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from chassis.runtime.health import Dependency
from gateway.journal import JournaledRequest
from proto.otlp.policy import DecodedPayload


class AcceptedRequest(NamedTuple):
    """A request with at least one accepted item: as received, its columns, and the length of its body on the wire."""

    request: JournaledRequest
    decoded: DecodedPayload
    wire_bytes: int


class Ingest(Protocol):
    """Takes requests, each with the promise of its durability mode. `admit` and `submit` raise ApiError on refusal."""

    @property
    def needs_raw_body(self) -> bool:
        """Whether `submit` needs the body as received."""

    def admit(self) -> None:
        """Raise ServiceUnavailable, before the body is read, while no request could be taken."""

    async def submit(self, accepted: AcceptedRequest) -> None:
        """Returns when the promise of a 200 holds."""

    def dependencies(self) -> Sequence[Dependency]:
        """The dependencies that `/readyz` probes."""

    async def start(self) -> None:
        """Start storing what is taken. Raises StartupError."""

    async def close(self) -> None:
        """Store what can be stored in time; afterwards every request is answered."""
