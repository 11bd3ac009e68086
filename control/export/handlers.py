"""`/orgs/{orgSlug}/warehouse/...`: sinks, exports, status, and the schemas of the streams."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

from aiohttp import web
from msgspec import UNSET
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.clickhouse import ClickHouse
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Arguments, route
from chassis.http.route import Body, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import CleanupContext, Route
from control.export import store
from control.export.bodies import (
    SCRUB_TIER,
    ConfigReplacement,
    ExportRequest,
    ExportResult,
    ExportRun,
    NewSink,
    PublishedStreams,
    SinkChange,
    SinkDeletion,
    SinkList,
    SinkStatus,
    WarehouseSink,
    check_streams,
    checkpoint_body,
    export_body,
    read_config,
    sink_body,
    stream_body,
)
from control.export.exporter import EndedRun, Exporter, SinkDisabled, WarehouseMetrics
from control.export.model import Sink, Stream
from control.export.sink_destination import open_destination
from control.export.streams.ordered import OrderedStream
from control.export.streams.reading import StreamReader
from control.export.streams.rollups import IssueRollups, ReleaseHealth
from control.export.streams.schemas import SCHEMAS
from control.export.task import WarehouseScheduler
from control.http.context import HandlerContext, path_id
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from control.routing.resource import shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

SHOWN_RUNS: Final = 100
MAX_WAIT_S: Final = 5.0  # wait for another export of the sink: a scheduled one mostly takes a moment
_RETRY_S: Final = 0.2
PATH: Final = "/orgs/{orgSlug}/warehouse/sinks"
ONE: Final = PATH + "/{sinkId}"
_CONFIG: Final = {"bucket": "sluice", "region": "eu-central-1", "accessKeyId": "ID", "secretAccessKey": "SECRET"}
NEW: Final = Body(json_content(NewSink), example={"name": "Data lake", "kind": "BLOBSTORE", "config": _CONFIG})
CONFIG: Final = Body(json_content(ConfigReplacement), example={"config": _CONFIG})
_READ: Final = bearer(Scope.SINKS_READ)
_WRITE: Final = bearer(Scope.SINKS_WRITE)


@dataclass(frozen=True, slots=True)
class WarehouseSinks(Handlers):
    """Handlers of sinks, and their dependencies."""

    TAG: ClassVar = Tag("warehouse", "Export of data streams to object stores and warehouses.")
    secret_box: SecretBox
    exporter: Exporter

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {Sink: Argument(self._find)})

    @route("GET", PATH, _READ)
    async def list_warehouse_sinks(self, caller: AuthorizationContext, connection: AsyncConnection) -> SinkList:
        """List sinks, oldest first."""
        return SinkList([self._body(one) for one in await store.list_sinks(connection, self.secret_box, caller.org_id)])

    @route("POST", PATH, _WRITE, status=201, body=NEW, errors=(409,))
    async def create_warehouse_sink(self, request: web.Request) -> WarehouseSink:
        """Create a sink.

        Sluice stores `config` encrypted and never shows it. A field of a wrong type is refused. If fields are missing,
        the sink is created, but it is not configured. 409 at the maximum number of sinks.
        """
        issues = Issues()
        body = await self.context.read_body(request, NewSink, issues)
        config = read_config(body.kind, body.config, issues)
        check_streams(body.streams, issues)
        issues.raise_if_any("The request body is not valid.")
        if config is None:
            raise TypeError("no fault was found in the config, but it was not decoded")
        async with begin(self.context, request) as transaction:
            sink = await store.create(
                transaction.connection,
                self.secret_box,
                org_id=transaction.caller.org_id,
                name=body.name,
                kind=body.kind,
                streams=body.streams,
                config=config,
                created_by=transaction.caller.principal_id,
                now=_now(),
            )
            await _record(transaction, "sink.create", sink)
        return self._body(sink)

    @route("PATCH", ONE, _WRITE, example={"enabled": False})
    async def change_warehouse_sink(self, sink: Sink, body: SinkChange, transaction: Transaction) -> WarehouseSink:
        """Change the name or the streams of a sink, or enable or disable it.

        A disabled sink exports nothing. When you enable it again, it continues where it stopped.
        """
        sink = await self._load(transaction.connection, sink.org_id, sink.id)
        await store.change(
            transaction.connection,
            sink,
            name=None if body.name is UNSET else body.name,
            enabled=None if body.enabled is UNSET else body.enabled,
            streams=None if body.streams is UNSET else body.streams,
            now=_now(),
        )
        changed = await self._load(transaction.connection, sink.org_id, sink.id)
        await _record(transaction, "sink.change", changed)
        return self._body(changed)

    @route("DELETE", ONE, _WRITE)
    async def delete_warehouse_sink(self, sink_id: str, transaction: Transaction) -> SinkDeletion:
        """Delete a sink, its config, its checkpoints and its runs. Exported files and rows are not deleted."""
        sink = await self._load(transaction.connection, transaction.caller.org_id, sink_id)
        await store.delete(transaction.connection, sink.id)
        await _record(transaction, "sink.delete", sink)
        return SinkDeletion(deleted=True)

    @route("PUT", ONE + "/config", _WRITE, body=CONFIG)
    async def replace_warehouse_sink_config(self, sink: Sink, request: web.Request) -> WarehouseSink:
        """Replace the complete config of a sink, for example to rotate credentials.

        The sink continues where it stopped. Rows that were already exported are not exported again.
        """
        issues = Issues()
        body = await self.context.read_body(request, ConfigReplacement, issues)
        config = read_config(sink.kind, body.config, issues)
        issues.raise_if_any("The request body is not valid.")
        if config is None:
            raise TypeError("no fault was found in the config, but it was not decoded")
        async with begin(self.context, request) as transaction:
            sink = await self._load(transaction.connection, sink.org_id, sink.id)
            await store.replace_config(transaction.connection, self.secret_box, sink, config, _now())
            changed = await self._load(transaction.connection, sink.org_id, sink.id)
            await _record(transaction, "sink.configure", changed)
        return self._body(changed)

    @route("POST", ONE + "/export", bearer(Scope.SINKS_EXPORT), errors=(409, 503), example={"maxBatchesPerStream": 10})
    async def export_warehouse_sink(self, sink: Sink, body: ExportRequest, request: web.Request) -> ExportResult:
        """Export now, with a maximum number of batches per stream.

        The answer comes when the export has ended. It also reports failed runs, after which the next run continues. 409
        if the sink is disabled, or if another export of the sink still runs after some seconds.
        """
        async with begin(self.context, request) as transaction:
            await _record(transaction, "sink.export", await self._load(transaction.connection, sink.org_id, sink.id))
        exporting = asyncio.create_task(_export(self.exporter, sink, body.max_batches_per_stream))
        try:
            exported_sink, runs = await asyncio.shield(exporting)  # the export continues if the client disconnects
        except SinkDisabled as error:
            raise Conflict("The sink is disabled.") from error
        except store.LeaseUnavailable as error:
            raise Conflict("Another export of this sink is running.") from error
        return export_body(exported_sink, runs)

    @route("GET", ONE + "/status", _READ)
    async def show_warehouse_sink_status(
        self, sink_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> SinkStatus:
        """Show a sink, the progress of its streams, and its last runs."""
        sink = await self._load(connection, caller.org_id, sink_id)
        stored = await store.list_checkpoints(connection, sink.id)
        runs = await store.list_runs(connection, sink.id, SHOWN_RUNS)
        checkpoints = [checkpoint_body(one, stored.get(one)) for one in Stream if one in sink.streams or one in stored]
        return SinkStatus(
            self._body(sink), checkpoints, [shown_as(ExportRun, run, scrub_tier=SCRUB_TIER) for run in runs]
        )

    @route("GET", "/orgs/{orgSlug}/warehouse/streams", _READ)
    async def list_warehouse_streams(self) -> PublishedStreams:
        """List the streams with their schemas."""
        return PublishedStreams([stream_body(schema) for schema in SCHEMAS.values()])

    async def _find(self, request: web.Request, _stack: AsyncExitStack) -> Sink:
        """Find the sink in the path. It is loaded before the body is read, so 404 precedes 415. Raises NotFound."""
        async with self.context.database.read() as connection:
            return await self._load(connection, authorization_context(request).org_id, path_id(request, "sinkId"))

    async def _load(self, connection: AsyncConnection, org_id: str, sink_id: str) -> Sink:
        """Load the sink. Raises NotFound."""
        sink = await store.find(connection, self.secret_box, org_id, sink_id)
        if sink is None:
            raise NotFound
        return sink

    def _body(self, sink: Sink) -> WarehouseSink:
        return sink_body(sink, self.exporter.not_configured_reason(sink))


async def _record(transaction: Transaction, action: str, sink: Sink) -> None:
    data = {
        "name": sink.name,
        "kind": sink.kind.value,
        "enabled": sink.enabled,
        "streams": [stream.value for stream in sink.streams],
    }
    await transaction.record(action, sink.id, data)


def _now() -> datetime:
    return to_milliseconds(datetime.now(UTC))


async def _export(exporter: Exporter, sink: Sink, max_batches: int) -> tuple[Sink, list[EndedRun]]:
    """Export as soon as no other export of the sink runs. Raises LeaseUnavailable, SinkDisabled."""
    deadline = time.monotonic() + MAX_WAIT_S
    while True:
        try:
            return await exporter.export(sink.org_id, sink.id, max_batches)
        except store.LeaseUnavailable:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_RETRY_S)


UPLOAD_S: Final = 120.0  # per file, which has at most some ten megabytes


def build_warehouse_routes(
    context: HandlerContext,
    secret_box: SecretBox,
    policy: EgressPolicy,
    interval_s: float,
    clickhouse: ClickHouse | None,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Build the routes and background tasks of sinks. `policy`: the addresses that sinks may have. `interval_s`: the
    time between two runs of a sink, in seconds. 0: sinks export only on request. Without `clickhouse`, no sink is
    configured.
    """
    egress = Egress(policy, total_s=UPLOAD_S)
    exporter = Exporter(
        context.database,
        secret_box,
        _readers(context, clickhouse),
        partial(open_destination, egress),
        WarehouseMetrics(registry),
    )
    scheduler = WarehouseScheduler(context.database, exporter, interval_s)
    tasks: list[CleanupContext] = [egress.running, *([scheduler.running] if interval_s else [])]
    return WarehouseSinks(context, secret_box, exporter).routes(), tasks


def _readers(context: HandlerContext, clickhouse: ClickHouse | None) -> Mapping[Stream, StreamReader]:
    if clickhouse is None:
        return MappingProxyType({})
    return MappingProxyType(
        {
            Stream.ERROR_ESSENCES: OrderedStream.errors(clickhouse),
            Stream.ISSUE_ROLLUPS: IssueRollups(context.database),
            Stream.RELEASE_HEALTH_ROLLUPS: ReleaseHealth(clickhouse),
            Stream.INGEST_OUTCOMES: OrderedStream.outcomes(clickhouse),
        }
    )
