"""Builds the routes and background tasks of sinks."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry

from chassis.clickhouse import ClickHouse
from chassis.http.web import CleanupContext, Route
from control.export.exporter import Exporter
from control.export.metrics import WarehouseMetrics
from control.export.model import Stream
from control.export.opening import DestinationOpener
from control.export.scheduler import WarehouseScheduler
from control.export.sinks import WarehouseSinks
from control.export.streams.issue_rollups import IssueRollups
from control.export.streams.ordered import OrderedStream
from control.export.streams.reader import StreamReader
from control.export.streams.release_health import ReleaseHealth
from control.http.context import HandlerContext
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.secrets.secret_box import SecretBox

UPLOAD_S: Final = 120.0  # of one file, at most some ten megabytes


def build_warehouse_routes(
    context: HandlerContext,
    secret_box: SecretBox,
    policy: EgressPolicy,
    interval_s: float,
    clickhouse: ClickHouse | None,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Routes and background tasks. `policy`: where sinks may be. `interval_s`: between two runs of a sink; 0: sinks
    export on request only. Without `clickhouse` no sink is configured.
    """
    egress = Egress(policy, total_s=UPLOAD_S)
    exporter = Exporter(
        context.database,
        secret_box,
        _readers(context, clickhouse),
        DestinationOpener(egress),
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
