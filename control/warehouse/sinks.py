"""`/orgs/{orgSlug}/warehouse/...`: sinks, exports, status, and the schemas of the streams (specification 4.6)."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Final

from aiohttp import web
from msgspec import UNSET, Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.path_ids import path_id
from control.secrets.secret_box import SecretBox
from control.warehouse import repository, run_repository
from control.warehouse.exporter import EndedRun, Exporter, SinkDisabled
from control.warehouse.model import Sink, Stream
from control.warehouse.repository import LeaseHeld
from control.warehouse.schemas import (
    ConfigReplacement,
    ExportRequest,
    ExportResult,
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
    run_body,
    sink_body,
    stream_body,
)
from control.warehouse.streams.schemas import SCHEMAS
from proto.identity import Scope

SHOWN_RUNS: Final = 100
MAX_WAIT_S: Final = 5.0  # for another export of a sink: one by schedule mostly takes a moment
_RETRY_S: Final = 0.2
TAG: Final = Tag("warehouse", "Export of data streams to object stores and warehouses.")
ID: Final = Parameter("sinkId", "path", Annotated[str, Meta(min_length=1)], "The sink.")
_ONE: Final = ResponseSpec("The sink.", json_content(WarehouseSink))
_CONFIG: Final = {"bucket": "sluice", "region": "eu-central-1", "accessKeyId": "ID", "secretAccessKey": "SECRET"}
LIST: Final = Operation("listWarehouseSinks", TAG, (ResponseSpec("All sinks.", json_content(SinkList)),))
CREATE: Final = Operation(
    "createWarehouseSink",
    TAG,
    (ResponseSpec("The sink.", json_content(WarehouseSink), 201),),
    body=Body(json_content(NewSink), example={"name": "Data lake", "kind": "BLOBSTORE", "config": _CONFIG}),
    error_statuses=(409,),
)
CHANGE: Final = Operation(
    "changeWarehouseSink", TAG, (_ONE,), (ID,), body=Body(json_content(SinkChange), example={"enabled": False})
)
DELETE: Final = Operation(
    "deleteWarehouseSink", TAG, (ResponseSpec("The sink was deleted.", json_content(SinkDeletion)),), (ID,)
)
CONFIGURE: Final = Operation(
    "replaceWarehouseSinkConfig",
    TAG,
    (_ONE,),
    (ID,),
    body=Body(json_content(ConfigReplacement), example={"config": _CONFIG}),
)
EXPORT: Final = Operation(
    "exportWarehouseSink",
    TAG,
    (ResponseSpec("What was exported.", json_content(ExportResult)),),
    (ID,),
    body=Body(json_content(ExportRequest), example={"maxBatchesPerStream": 10}),
    error_statuses=(409, 503),
)
STATUS: Final = Operation(
    "showWarehouseSinkStatus", TAG, (ResponseSpec("The status.", json_content(SinkStatus)),), (ID,)
)
STREAMS: Final = Operation("listWarehouseStreams", TAG, (ResponseSpec("The schemas.", json_content(PublishedStreams)),))


@dataclass(frozen=True, slots=True)
class WarehouseSinks:
    """Handlers of sinks, and their dependencies."""

    context: HandlerContext
    secret_box: SecretBox
    exporter: Exporter

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/warehouse/sinks"
        one, read, write = every + "/{sinkId}", bearer(Scope.SINKS_READ), bearer(Scope.SINKS_WRITE)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("PATCH", one, self.change, write, operation=CHANGE),
            Route("DELETE", one, self.delete, write, operation=DELETE),
            Route("PUT", one + "/config", self.configure, write, operation=CONFIGURE),
            Route("POST", one + "/export", self.export, bearer(Scope.SINKS_EXPORT), operation=EXPORT),
            Route("GET", one + "/status", self.status, read, operation=STATUS),
            Route("GET", "/orgs/{orgSlug}/warehouse/streams", self.streams, read, operation=STREAMS),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List sinks, oldest first."""
        async with self.context.database.read() as connection:
            found = await repository.list_sinks(connection, self.secret_box, authorization_context(request).org_id)
        return json_response(SinkList([self._body(sink) for sink in found]))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a sink.

        `config` is stored encrypted and never shown. A wrong type in it is refused; what it lacks makes the sink not
        configured. 409 at the maximum number of sinks.
        """
        issues = Issues()
        body = await self.context.read_body(request, NewSink, issues)
        config = read_config(body.kind, body.config, issues)
        check_streams(body.streams, issues)
        issues.raise_if_any("The request body is not valid.")
        if config is None:
            raise TypeError("the config has no issues, but was not decoded")
        async with self.context.write_transaction(request) as (connection, caller):
            sink = await repository.create(
                connection,
                self.secret_box,
                org_id=caller.org_id,
                name=body.name,
                kind=body.kind,
                streams=body.streams,
                config=config,
                created_by=caller.principal_id,
                now=_now(),
            )
            await _record_audit(connection, request, caller, "sink.create", sink)
        return json_response(self._body(sink), status=201)

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a sink: its name, whether it is enabled, its streams.

        A disabled sink exports nothing; enabled again, it continues where it was.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            await self._load(connection, request)
        issues = Issues()
        body = await self.context.read_body(request, SinkChange, issues)
        streams = None if body.streams is UNSET else body.streams
        check_streams(streams or [], issues)
        issues.raise_if_any("The request body is not valid.")
        async with self.context.write_transaction(request) as (connection, caller):
            known = await self._load(connection, request)
            await repository.change(
                connection,
                known,
                name=None if body.name is UNSET else body.name,
                enabled=None if body.enabled is UNSET else body.enabled,
                streams=streams,
                now=_now(),
            )
            changed = await self._load(connection, request)
            await _record_audit(connection, request, caller, "sink.change", changed)
        return json_response(self._body(changed))

    async def configure(self, request: web.Request) -> web.StreamResponse:
        """Replace the config of a sink as a whole, for example to rotate credentials.

        What is exported so far stays exported: the sink continues where it was.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            kind = (await self._load(connection, request)).kind
        issues = Issues()
        body = await self.context.read_body(request, ConfigReplacement, issues)
        config = read_config(kind, body.config, issues)
        issues.raise_if_any("The request body is not valid.")
        if config is None:
            raise TypeError("the config has no issues, but was not decoded")
        async with self.context.write_transaction(request) as (connection, caller):
            known = await self._load(connection, request)
            await repository.replace_config(connection, self.secret_box, known, config, _now())
            changed = await self._load(connection, request)
            await _record_audit(connection, request, caller, "sink.configure", changed)
        return json_response(self._body(changed))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a sink, its config, its checkpoints and its runs. What it has exported stays where it is."""
        async with self.context.write_transaction(request) as (connection, caller):
            known = await self._load(connection, request)
            await repository.delete(connection, known.id)
            await _record_audit(connection, request, caller, "sink.delete", known)
        return json_response(SinkDeletion(deleted=True))

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Export now, each stream up to so many batches.

        The answer comes when it is done; a run that fails is reported, and the next one continues where it was. 409
        if the sink is disabled, or another export of it still runs after some seconds.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            known = await self._load(connection, request)
        body = await self.context.read_body(request, ExportRequest)
        async with self.context.write_transaction(request) as (connection, caller):
            await _record_audit(connection, request, caller, "sink.export", await self._load(connection, request))
        exporting = asyncio.create_task(_export(self.exporter, known, body.max_batches_per_stream))
        try:
            sink, ended = await asyncio.shield(exporting)  # it goes on if the client leaves
        except SinkDisabled as error:
            raise Conflict("The sink is disabled.") from error
        except LeaseHeld as error:
            raise Conflict("Another export of this sink is running.") from error
        return json_response(export_body(sink, ended))

    async def status(self, request: web.Request) -> web.StreamResponse:
        """Show a sink, how far its streams are exported, and its last runs."""
        async with self.context.database.read() as connection:
            sink = await self._load(connection, request)
            known = await run_repository.list_checkpoints(connection, sink.id)
            runs = await run_repository.list_runs(connection, sink.id, SHOWN_RUNS)
        checkpoints = [checkpoint_body(one, known.get(one)) for one in Stream if one in sink.streams or one in known]
        return json_response(SinkStatus(self._body(sink), checkpoints, [run_body(run) for run in runs]))

    async def streams(self, _request: web.Request) -> web.StreamResponse:
        """List the streams with their schemas."""
        return json_response(PublishedStreams([stream_body(schema) for schema in SCHEMAS.values()]))

    async def _load(self, connection: AsyncConnection, request: web.Request) -> Sink:
        """The sink in the path. Raises NotFound."""
        org_id, sink_id = authorization_context(request).org_id, path_id(request, "sinkId")
        found = await repository.find(connection, self.secret_box, org_id, sink_id)
        if found is None:
            raise NotFound
        return found

    def _body(self, sink: Sink) -> WarehouseSink:
        return sink_body(sink, self.exporter.not_configured_reason(sink))


async def _record_audit(
    connection: AsyncConnection,
    request: web.Request,
    caller: AuthorizationContext,
    action: str,
    sink: Sink,
    extra: Mapping[str, object] = MappingProxyType({}),
) -> None:
    data = {
        "name": sink.name,
        "kind": sink.kind.value,
        "enabled": sink.enabled,
        "streams": [stream.value for stream in sink.streams],
    }
    await record(connection, caller, action, sink.id, {**data, **extra}, request_id(request))


def _now() -> datetime:
    return to_milliseconds(datetime.now(UTC))


async def _export(exporter: Exporter, sink: Sink, max_batches: int) -> tuple[Sink, list[EndedRun]]:
    """As soon as no other export of the sink runs. Raises LeaseHeld, SinkDisabled."""
    deadline = time.monotonic() + MAX_WAIT_S
    while True:
        try:
            return await exporter.export(sink.org_id, sink.id, max_batches)
        except LeaseHeld:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_RETRY_S)
