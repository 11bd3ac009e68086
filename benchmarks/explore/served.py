"""The query service on a socket of this process, in a thread of its own, and the engine that it reads, beside it.

A caller's thread waits while the service's works, so that a request costs what it costs a client on the same machine.
"""

import asyncio
import http.client
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.db.database import Database
from chassis.errors import Unauthorized
from chassis.http.access import Guards
from chassis.http.cursor import CursorSigner
from chassis.http.serve import bind, listening
from chassis.http.web import build_app
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from proto.identity import Role, Scope
from query.app import service
from query.settings import QuerySettings

T = TypeVar("T")

PROJECT: Final = 1
PATH: Final = "/orgs/shop/projects/web/explore"
# By hand nothing is refused; two threads or whatever the engine takes, as in the service.
_LIMITS: Final = QueryLimits(max_seconds=600, max_memory_bytes=0, max_result_rows=0)


class Request(NamedTuple):
    """A call of an endpoint; `path` with its query string, below `PATH`."""

    path: str
    body: bytes | None = None


class _Open:
    """A guard that lets everybody see one project, by the name that he gives; who may see what is not measured."""

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        if authorization is None:
            raise Unauthorized
        return AuthenticatedCredential("t", authorization, "o", "shop", Role.MEMBER, frozenset({Scope.EXPLORE_READ}))

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        held = frozenset(Scope(scope) for scope in scopes)
        return AuthorizationContext(
            grant.principal_id, "t", grant.org_id, org_slug, Role.MEMBER, held, PROJECT, project_slug
        )


class Served:
    """The service over the engine in `directory`; `ask` calls it, `run` goes past it, `port` is where it listens."""

    def __init__(self, directory: Path, settings: QuerySettings | None = None) -> None:
        self._directory = directory
        self._settings = QuerySettings() if settings is None else settings
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._exit = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._wait(self._start())
        self._client = http.client.HTTPConnection("127.0.0.1", self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._wait(self._exit.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def ask(self, request: Request) -> tuple[int, bytes]:
        """Status and body of an answer, whole."""
        method = "GET" if request.body is None else "POST"
        headers = {"Authorization": "Bearer benchmark"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        self._client.request(method, PATH + request.path, request.body, headers)
        answer = self._client.getresponse()
        return answer.status, answer.read()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement, through a client like the service's."""
        return self._wait(self._engine.query(sql, {}, limits=_LIMITS))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result()

    async def _start(self) -> int:
        url = f"chdb://{self._directory}"
        self._engine = ClickHouse(url, handles=1)
        await self._engine.start()
        self._exit.push_async_callback(self._engine.close)
        settings = ChassisSettings(api_rate=0, analysis_rate=0)  # one client asks more than a principal may
        query_settings, telemetry = self._settings, Telemetry("query")
        store = ClickHouse(url, handles=query_settings.effective_handles)
        none = Database("sqlite:////nowhere/none.db")  # of change events, which no benchmark asks for
        built = service(query_settings, clickhouse=store, database=none, signer=CursorSigner(b"k" * 32))
        app = build_app(
            built.routes,
            service=built.name,
            settings=settings,
            telemetry=telemetry,
            cleanup_contexts=built.cleanup_contexts,
            guards=Guards(bearer=_Open()),
            readiness=built.readiness,
        )
        listener = bind("127.0.0.1", 0)
        await self._exit.enter_async_context(listening(app, listener, settings, telemetry))
        port: int = listener.getsockname()[1]
        return port
