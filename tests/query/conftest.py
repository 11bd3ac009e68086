"""Telemetry stored as the gateway stores it, and the query service on a real socket in front of it."""

import itertools
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.db.database import Database
from chassis.errors import Forbidden, NotFound, Unauthorized
from chassis.http.access import Guards
from chassis.http.cursor import CursorSigner
from chassis.http.web import build_app
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from proto.identity import Role, Scope
from proto.otlp import codec
from proto.otlp.policy import Policy, Signal
from proto.storage import tables
from query.app import service
from query.settings import QuerySettings
from tests.query.announced import Interface

MS: Final = 10**6
SECOND: Final = 10**9
HOUR: Final = 3600 * SECOND
NOW: Final = time.time_ns() // SECOND * SECOND  # tables drop what is older than 30 days, so tests live in the present

# For what is long, or says the same again and again, of statements and their answers: both engines are one program. How
# they are sent, what they are given and how answers come back, the other tests prove on both.
NO_DATABASE: Final = Database("sqlite:////nowhere/none.db")  # never started
ONE_ENGINE: Final = pytest.mark.parametrize("clickhouse_url", ["embedded"], indirect=True)

# A test may ask more in a second than a principal may; the limits have tests of their own.
UNLIMITED: Final = ChassisSettings(api_rate=0, analysis_rate=0, failed_bearer_rate=0)

PROJECT: Final = 7
OTHER_PROJECT: Final = 8
PATH: Final = "/orgs/acme/projects/shop/explore"
OTHER_PATH: Final = "/orgs/acme/projects/till/explore"
FOREIGN_PATH: Final = "/orgs/evil/projects/shop/explore"
_PROJECTS: Final = {
    ("acme", "shop"): ("o1", PROJECT),
    ("acme", "till"): ("o1", OTHER_PROJECT),
    ("evil", "shop"): ("o2", 9),
}


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case list():
            return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))
        case Mapping():
            return AnyValue(kvlist_value=KeyValueList(values=key_values(value)))
    members = {bool: "bool_value", int: "int_value", float: "double_value", bytes: "bytes_value", str: "string_value"}
    return AnyValue(**{members[type(value)]: value})


def key_values(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def span(
    number: int = 1,
    *,
    trace: int = 1,
    parent: int = 0,
    start: int = NOW - 60 * SECOND,
    duration: int = MS,
    name: str = "op",
    kind: int = 2,
    status: int = 0,
    message: str = "",
    attributes: Mapping[str, Any] | None = None,
) -> Span:
    return Span(
        trace_id=trace_id(trace),
        span_id=span_id(number),
        parent_span_id=span_id(parent) if parent else b"",
        start_time_unix_nano=start,
        end_time_unix_nano=start + duration,
        name=name,
        kind=kind,  # type: ignore[arg-type]  # tests also send what no client should
        status=Status(code=status, message=message),  # type: ignore[arg-type]
        attributes=key_values(attributes or {}),
    )


def record(
    *,
    at: int = NOW - 60 * SECOND,
    body: Any = None,
    trace: int = 0,
    number: int = 0,
    severity: int = 0,
    attributes: Mapping[str, Any] | None = None,
    **fields: Any,
) -> LogRecord:
    return LogRecord(
        time_unix_nano=at,
        trace_id=trace_id(trace) if trace else b"",
        span_id=span_id(number) if number else b"",
        severity_number=severity,  # type: ignore[arg-type]
        body=any_value(body),
        attributes=key_values(attributes or {}),
        **fields,
    )


class Loader:
    """Stores telemetry through the codec, as the gateway does; each call is a batch."""

    policy = Policy(sensitive_words=())

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse
        self._batches = itertools.count(1)
        self.named = codec.new_named_keys(0, 0)  # what the roll-up names: everything

    async def spans(
        self,
        *spans: Span,
        project: int = PROJECT,
        resource: Mapping[str, Any] | Resource | None = None,
        scope: InstrumentationScope | None = None,
    ) -> None:
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add(resource=_resource(resource))
        group.scope_spans.add(spans=spans, scope=scope)
        await self.request("traces", request.SerializeToString(), project)

    async def logs(
        self, *records: LogRecord, project: int = PROJECT, resource: Mapping[str, Any] | None = None
    ) -> None:
        request = ExportLogsServiceRequest()
        request.resource_logs.add(resource=_resource(resource)).scope_logs.add(log_records=records)
        await self.request("logs", request.SerializeToString(), project)

    async def request(self, signal: Signal, body: bytes, project: int = PROJECT) -> None:
        decoded = codec.decode(signal, body, project, self.policy, NOW)
        assert not decoded.rejected
        batch = next(self._batches)
        for block in codec.build_blocks([decoded], batch, self.named):
            table = next(each for each in vars(tables).values() if getattr(each, "name", None) == block.table)
            await self._clickhouse.insert(
                block.table, table.column_names, block.pieces, token=f"{batch}:{block.table}:{block.day}"
            )


def _resource(resource: Mapping[str, Any] | Resource | None) -> Resource:
    return resource if isinstance(resource, Resource) else Resource(attributes=key_values(resource or {}))


class Guard:
    """Bearers: `mine` and `colleague` see the organization acme, `blind` lacks the scope, `foreign` sees evil;
    `agent-1` and so on are agents that `mine` owns.
    """

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        name = (authorization or "").removeprefix("Bearer ")
        org = {"mine": "acme", "colleague": "acme", "blind": "acme", "agent": "acme", "foreign": "evil"}.get(
            name.partition("-")[0]
        )
        if org is None:
            raise Unauthorized
        scopes = frozenset[Scope]() if name.startswith("blind") else frozenset({Scope.EXPLORE_READ})
        root_id = "mine" if name.startswith("agent-") else None
        return AuthenticatedCredential("t", name, f"id of {org}", org, Role.MEMBER, scopes, owning_user_id=root_id)

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        place = _PROJECTS.get((org_slug, project_slug or ""))
        if place is None or grant.org_slug != org_slug:
            raise NotFound
        if grant.scopes.isdisjoint(scopes):
            raise Forbidden
        org_id, project_id = place
        return AuthorizationContext(
            grant.principal_id,
            "t",
            org_id,
            org_slug,
            Role.MEMBER,
            grant.scopes,
            project_id,
            project_slug,
            owning_user_id=grant.owning_user_id,
        )


@dataclass
class Answer:
    """What came back: the parsed JSON, and the text for what parsing hides."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


_INTERFACES: Final[list[Interface]] = []


class Explore:
    """A client of the service. Whatever it is answered is held against the service's document."""

    def __init__(self, client: TestClient[Any, Any]) -> None:
        self.client = client

    async def get(self, path: str, *, token: str = "mine", base: str = PATH, **query: Any) -> Answer:
        """`from_` stands for `from`."""
        params = {name.rstrip("_"): str(value) for name, value in query.items() if value is not None}
        headers = {"Authorization": f"Bearer {token}"}
        async with self.client.get(f"{base}{path}", params=params, headers=headers) as answer:
            return await self._announced(answer, Answer(answer.status, answer.headers, await answer.text()))

    async def post(self, path: str, body: Any, *, token: str = "mine", base: str = PATH) -> Answer:
        """`body` as JSON; bytes as they are."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(f"{base}{path}", data=data, headers=headers) as answer:
            return await self._announced(answer, Answer(answer.status, answer.headers, await answer.text()))

    async def _announced(self, received: ClientResponse, answer: Answer) -> Answer:
        """The answer, which is one that the service's document announces; the document is the same in every test."""
        if not _INTERFACES:
            async with self.client.get("/openapi.json") as document:
                _INTERFACES.append(Interface(await document.json()))
        _INTERFACES[0].check(received.method, received.url.raw_path, answer.status, answer.headers, answer.text)
        return answer

    async def data(self, path: str = "/spans", **query: Any) -> list[Any]:
        """The rows of one page that must succeed."""
        answer = await self.get(path, **query)
        assert answer.status == 200, answer.text
        rows: list[Any] = answer.json["data"]
        return rows

    async def names(self, **query: Any) -> list[str]:
        """The names of the spans that match, sorted."""
        return sorted(row["name"] for row in await self.data(**{"limit": 200, **query}))

    async def pages(self, path: str = "/spans", **query: Any) -> list[list[Any]]:
        """All pages, following the cursors."""
        pages, cursor = [], None
        while True:
            answer = await self.get(path, cursor=cursor, **query)
            assert answer.status == 200, answer.text
            page = answer.json
            assert page["hasMore"] is (page["nextCursor"] is not None)
            pages.append(page["data"])
            if not page["hasMore"]:
                return pages
            cursor = page["nextCursor"]


def issues(answer: Answer) -> list[tuple[str, str]]:
    """(path, code) of each issue of a 400."""
    assert answer.status == 400, answer.text
    return [(issue["path"], issue["code"]) for issue in answer.json["error"]["details"]]


@pytest.fixture
def loader(clickhouse: ClickHouse) -> Loader:
    return Loader(clickhouse)


@pytest.fixture
def query_settings() -> QuerySettings:
    return QuerySettings()


@pytest.fixture
async def database(clickhouse: ClickHouse) -> str:
    """Name of the test's database."""
    ((name,),) = await clickhouse.query("SELECT currentDatabase()", {}, limits=QueryLimits())
    return str(name)


@pytest.fixture
def explore_store(clickhouse_url: str, database: str) -> ClickHouse:
    """The service's own handles on the test's database; the service starts and closes them."""
    return ClickHouse(clickhouse_url, database=database, handles=2)


@pytest.fixture
def moving_clock() -> list[int]:
    """The service's clock; a test may move it."""
    return [NOW]


@pytest.fixture
async def explore(
    explore_store: ClickHouse, query_settings: QuerySettings, moving_clock: list[int]
) -> AsyncIterator[Explore]:
    """A client of the service over the test's database."""
    async with served(explore_store, query_settings, moving_clock) as client:
        yield client


def application(
    store: ClickHouse,
    settings: QuerySettings,
    clock: list[int],
    chassis: ChassisSettings = UNLIMITED,
    database: Database = NO_DATABASE,
) -> web.Application:
    """The service as an application, behind the guard of these tests. `database` is started by the caller."""
    telemetry, signer = Telemetry("query"), CursorSigner(b"k" * 32)
    built = service(
        settings,
        clickhouse=store,
        database=database,
        signer=signer,
        clock=lambda: clock[0],
        registry=telemetry.registry,
        send_min_rate=chassis.send_min_rate,
    )
    return build_app(
        built.routes,
        service=built.name,
        settings=chassis,
        telemetry=telemetry,
        cleanup_contexts=built.cleanup_contexts,
        guards=Guards(bearer=Guard()),
        readiness=built.readiness,
    )


@asynccontextmanager
async def served(
    store: ClickHouse,
    settings: QuerySettings,
    clock: list[int],
    chassis: ChassisSettings = UNLIMITED,
    database: Database = NO_DATABASE,
) -> AsyncIterator[Explore]:
    """The service on a socket of its own."""
    async with TestClient(TestServer(application(store, settings, clock, chassis, database))) as client:
        yield Explore(client)
