"""The steps of an export between its authentication and its response, for both signals and both protocols."""

from collections.abc import Callable

from chassis.http.access import PROJECT
from chassis.limits.client_request import ClientRequest
from gateway.admission.large_resources import SMALL_BYTES, LargeResourceBudget, with_small_resource_limits
from gateway.admission.memory_budget import Lease, MemoryBudget
from gateway.admission.quota.quota import Quota
from gateway.export.decoding import Decoder
from gateway.ingest.interface import AcceptedRequest, Ingest
from gateway.journal import JournaledRequest
from gateway.outcomes import OutcomeCounters
from gateway.request_context import ITEMS, WIRE_BYTES
from proto.otlp.policy import DecodedPayload, Signal
from proto.otlp.responses import Media


class ExportSteps:
    """All dependencies are passed in; it holds no state of its own."""

    def __init__(
        self,
        *,
        outcomes: OutcomeCounters,
        quota: Quota,
        budget: MemoryBudget,
        decoder: Decoder,
        ingest: Ingest,
        large_resources: LargeResourceBudget,
        clock: Callable[[], int],
    ) -> None:
        self._outcomes = outcomes
        self._quota = quota
        self._budget = budget
        self.decoder = decoder
        self._ingest = ingest
        self._large_resources = large_resources
        self._clock = clock

    async def admit(self, request: ClientRequest) -> None:
        """Before the body is read: raises QuotaExceeded if nothing is left of the organization's month, and
        ServiceUnavailable while no request can be taken.
        """
        await self._quota.admit(request)
        self._ingest.admit()

    def lease(self, request: ClientRequest) -> Lease:
        """The part of the memory budget that the request holds; empty until it is set."""
        return self._budget.lease(request[PROJECT].project_id)

    async def ingest(
        self, request: ClientRequest, signal: Signal, media: Media, encoding: str, wire: bytes, lease: Lease
    ) -> DecodedPayload:
        """Take the items of the body `wire`; returns when the promise of a success holds. Raises ApiError.

        The caller passes its only reference to `wire`, whose memory is then freed as soon as it is decompressed.
        """
        project = request[PROJECT]
        wire_bytes = request[WIRE_BYTES] = len(wire)
        body = await self.decoder.decompress(encoding, wire, self.decoder.limits[media])
        raw_body = wire if self._ingest.needs_raw_body else b""
        del wire
        lease.set((len(raw_body) if raw_body is not body else 0) + len(body))
        policy, now_ns = self.decoder.policy(project.sensitive_words, project.exempt_keys), self._clock()
        decoded = await self.decoder.decode(signal, media, body, project.project_id, policy, now_ns, lease)
        if not self._large_resources.admit(project.project_id, decoded.days, decoded.large_origins(SMALL_BYTES)):
            del decoded  # frees its memory before the second decode
            policy = with_small_resource_limits(policy)  # the journal keeps it, so a replay drops the same
            decoded = await self.decoder.decode(signal, media, body, project.project_id, policy, now_ns, lease)
        del body
        self._count_received(request, decoded)
        lease.set(len(raw_body) + decoded.nbytes, decoded.accepted)
        if decoded.accepted:
            journaled = JournaledRequest(
                project.project_id, signal, media, encoding, now_ns, decoded.accepted, policy, raw_body
            )
            with self._quota.reserve(request, decoded.accepted):
                await self._ingest.submit(AcceptedRequest(journaled, decoded, wire_bytes))
        else:
            self._outcomes.answered(decoded, wire_bytes)
        return decoded

    def _count_received(self, request: ClientRequest, decoded: DecodedPayload) -> None:
        request[ITEMS] = decoded.accepted + sum(decoded.rejected.values())
        self._outcomes.received(decoded)
