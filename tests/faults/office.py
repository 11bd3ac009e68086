"""`sluice control` under the layer (preload.c), with an organization that has two people and channels to a receiver.

office = Office(directory, database_url, zygote)       migrated and filled, not started
office.begin([Rule("die-after", "sync", "*-wal", 3)])  again and again, with other rules
office.call("POST", "/approval-requests", body)        as who asks; `as_approver=True`: as who decides
"""

import asyncio
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

from chassis.db.database import Database
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token, new_tenant
from tests.e2e.product import Service, call, clean_environment, run
from tests.faults.points import OF_CONTROL
from tests.faults.preload import Layer, Rule
from tests.faults.zygote import Zygote

SETTINGS: Final[Mapping[str, str]] = {
    "SLUICE_CONTROL_EGRESS_ALLOW": "127.0.0.0/8",
    "SLUICE_CONTROL_EGRESS_HTTP": "true",
    "SLUICE_CONTROL_DELIVERY_RETENTION_DAYS": "0",  # the clock is moved by days
    "SLUICE_APPROVAL_RATE": "0",
    "SLUICE_API_RATE": "0",
}
SECRET: Final = "whsec_" + "A" * 44
JSON: Final = "application/json"
WRITES: Final = ("write", "sync", "send")  # calls between two steps of a transaction
_REACHED_S: Final = 5.0

T = TypeVar("T")


class Arrived(NamedTuple):
    """A message at the receiver, in the order of arrival."""

    path: str
    id: str
    type: str
    request_id: str
    body: bytes


class Receiver:
    """Takes messages: `/good` at once, `/slow` after a moment, `/failing` each at its second attempt only."""

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []
        self.refused = 0
        self._known: set[str] = set()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(self.path, self.headers["webhook-id"], body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def handle(self) -> None:
                with suppress(ConnectionError):  # the other end was killed
                    super().handle()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def take(self, path: str, message_id: str, body: bytes) -> int:
        """The status to answer."""
        if path == "/slow":
            time.sleep(0.05)
        said = json.loads(body)
        with self._lock:
            if path == "/failing" and message_id not in self._known:
                self._known.add(message_id)
                self.refused += 1
                return 503
            self.arrived.append(Arrived(path, message_id, said["type"], said["data"]["request"]["id"], body))
        return 204

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Office:
    """The deployment; its store, port, log and clock outlive the processes."""

    directory: Path
    database_url: str
    zygote: Zygote
    receiver: Receiver = field(default_factory=Receiver)
    channels: dict[str, str] = field(default_factory=dict)
    kills: int = 0  # that were noticed by who `insisted`

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._service = Service("control", self.directory / "data", self.directory / "log")
        self._layer, self._ahead_s = Layer(self.directory / "layer"), 0.0
        self._environment = {**SETTINGS, "SLUICE_DATABASE_URL": self.database_url}
        run("migrate", "--data", str(self._service.data), environment=self._environment)
        self._asker, self._approver = asyncio.run(self._people())

    @property
    def port(self) -> int:
        return self._service.port

    @property
    def url(self) -> str:
        return self._service.url

    @property
    def log(self) -> str:
        return self._service.log.read_text()

    def begin(self, rules: Iterable[Rule] = ()) -> None:
        """Start a process and do not wait."""
        environment = {**self._environment, **self._layer.environment(rules)}
        arguments = ["control", "--data", str(self._service.data), "--port", str(self.port)]
        forked = self.zygote.begin(arguments, clean_environment(environment), self._service.log)
        self._service.process = cast("Any", forked)

    def start(self) -> None:
        """Start a process and wait until it is ready."""
        self.begin()
        self._service.wait_until_ready()

    def wait_until_ready(self) -> None:
        self._service.wait_until_ready()

    def ends_by_itself(self) -> bool:
        """Wait for that a while; whether it did."""
        deadline = time.monotonic() + _REACHED_S
        while not self._service.ended() and time.monotonic() < deadline:
            time.sleep(0.005)
        return self._service.ended()

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._service.ended()

    def kill(self) -> None:
        """End it without a word."""
        self._service.kill()

    def stop(self) -> None:
        """End it as an operator does; it ends well."""
        self._service.stop()

    def pass_by(self, seconds: float) -> None:
        """For the process, at once: leases end, pauses are over, requests expire."""
        self._ahead_s += seconds
        self._layer.set_clock(int(self._ahead_s * 1e9))

    def now(self) -> datetime:
        """For the process."""
        return datetime.now(UTC) + timedelta(seconds=self._ahead_s)

    def add_channels(self) -> None:
        """One for each way of the receiver, by HTTP."""
        for path in ("/good", "/slow", "/failing"):
            config = {"url": f"http://127.0.0.1:{self.receiver.port}{path}", "secret": SECRET}
            body = {"name": path, "kind": "webhook", "config": config}
            status, made = self.call("POST", "/projects/web/notification-channels", body)
            if status != 201:
                raise AssertionError(made)
            self.channels[made["id"]] = path

    def call(
        self, method: str, path: str, body: object = None, *, as_approver: bool = False, media_type: str = JSON
    ) -> tuple[int, Any]:
        """Status and body of a call below the organization; bytes are sent as they are. OSError where there is no
        answer.
        """
        token = self._approver if as_approver else self._asker
        headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type}
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            answer = call(method, f"{self._service.url}/orgs/acme{path}", raw, headers)
            return answer.status, json.loads(answer.body)
        except (http.client.HTTPException, ValueError) as error:  # cut off within its head, or within its body
            raise ConnectionResetError from error

    def answered(self, method: str, path: str, body: object, *, as_approver: bool = False) -> tuple[int, Any, bool]:
        """The same, asked again until there is an answer, and whether it had to be."""
        for attempt in itertools.count():
            with suppress(OSError):
                status, said = self.call(method, path, body, as_approver=as_approver)
                if status != 503:
                    return status, said, attempt > 0
            time.sleep(0.02)
        raise AssertionError

    def insisted(self, ask: Callable[[], tuple[int, T]]) -> tuple[int, T]:
        """What is answered to who asks again until there is an answer, and starts the service when it was killed."""
        while True:
            try:
                status, said = ask()
                if status != 503:
                    return status, said
            except OSError:
                if self.has_ended():
                    self.kills += 1
                    self.kill()
                    self.start()
            time.sleep(0.02)

    def begin_to_die(self, chance: random.Random, most: int) -> None:
        """Start a process that ends at one of its next calls, between two steps of a transaction."""
        points = OF_CONTROL[self.database_url.partition(":")[0]]
        between = [point for name, point in points.items() if point.call in WRITES and "receiver" not in name]
        self.begin([chance.choice(between).rule(chance.randrange(1, most), **self.places)])

    @property
    def places(self) -> dict[str, Path | int]:
        """What the names in the patterns of points stand for."""
        return {"own": self.port, "receiver": self.receiver.port, "database": port_of(self.database_url)}

    def rows(self, statement: Any) -> list[Any]:
        """Of the store, beside the process."""

        async def read() -> list[Any]:
            database = Database(self.database_url)
            await database.start()
            try:
                async with database.read() as connection:
                    return list((await connection.execute(statement)).all())
            finally:
                await database.close()

        return asyncio.run(read())

    def close(self) -> None:
        """End everything."""
        self.kill()
        self.receiver.close()

    async def _people(self) -> tuple[str, str]:
        database = Database(self.database_url)
        await database.start()
        tenant = await new_tenant(database, "acme")
        _, approver = await new_member_token(database, tenant, Role.ADMIN)
        await database.close()
        return str(tenant.token.secret), approver


def port_of(url: str) -> int:
    """That of a database server."""
    return urlsplit(url.rpartition("@")[2] and "x://" + url.rpartition("@")[2]).port or 0
