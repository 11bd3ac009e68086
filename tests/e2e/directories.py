"""Three control processes and query over one relational store, and the directories of organizations in it.

async with running(directory, database_url, clickhouse_url, redis_url) as cluster:
    organization = await new_organization(cluster, "org-1")
    person = await organization.hire(0)             a member with every kind of credential
    watches = organization.watch(person)            clients that use them at every process, all the time
    taken_out_at = await organization.take_out(person, "PATCH", cluster.controls[0])
"""

import asyncio
import itertools
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import aiohttp

from chassis.db.database import Database
from control.identity.directory import user_store
from control.identity.users import session_store
from proto.identity import Role
from tests.chassis.auth.tenants import Tenant, new_member_token, new_tenant
from tests.databases import WAIT_S
from tests.e2e.product import Service
from tests.ports import free_port

CONTROLS: Final = 3
SCIM: Final = "application/scim+json"
USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
PATCH: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
PASSWORD: Final = "correct horse battery"
CALM_S: Final = 0.2  # from one request of a watch to the next
URGENT_S: Final = (0.1, 0.3)  # the same, of all its credentials at once, from when they should end: at first, and later
URGENT_ROUNDS: Final = 10  # how often the former
UNDECIDED: Final = 503  # a process that has too little of the machine to look a credential up in time
GRABS: Final = 60  # credentials that are made at most; of one principal a hundred can be valid
GRAB_S: Final = 0.1
SETTINGS: Final = {
    "SLUICE_PUBLIC_URL": "https://sluice.example.com",
    "SLUICE_CONTROL_CURSOR_KEY": "the same on every machine",
    "SLUICE_QUERY_CURSOR_KEY": "the same on every machine",
    "SLUICE_CONTROL_SEALING_KEYS": f"1:{b64encode(bytes(32)).decode()}",
    # A machine under load is slow, and nothing on it is away for that.
    "SLUICE_REDIS_TIMEOUT_S": "5",
    "SLUICE_DATABASE_TIMEOUT_S": "15",
    **{
        f"SLUICE_{name}_RATE": "0"
        for name in (
            "API",
            "ANALYSIS",
            "SCIM",
            "VISITOR",
            "REFRESH",
            "APPROVAL",
            "FAILED_BEARER",
            "FAILED_LOGIN",
            "NEW_ADDRESS_LOGIN",
        )
    },
}


class Reply(NamedTuple):
    status: int
    body: Any


@dataclass
class Cluster:
    """The processes; the store and HTTP as the tests have them."""

    controls: list[Service]
    query: Service
    database: Database
    http: aiohttp.ClientSession

    async def call(self, service: Service, method: str, path: str, body: object = None, *credential: str) -> Reply:
        """A request that is repeated while it is undecided. `credential`: as in `ask`."""
        while (reply := await self.ask(service, method, path, body, *credential)).status == UNDECIDED:
            await asyncio.sleep(CALM_S)
        return reply

    async def ask(
        self, service: Service, method: str, path: str, body: object = None, token: str = "", kind: str = ""
    ) -> Reply:
        """One request; `kind` is the type of its body."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if kind:
            headers["Content-Type"] = kind
        async with self.http.request(method, service.url + path, headers=headers, **sent) as answer:
            raw = await answer.read()
            return Reply(answer.status, await answer.json(content_type=None) if raw else None)

    async def expect(
        self,
        status: int,
        service: Service,
        method: str,
        path: str,
        body: object = None,
        token: str = "",
        kind: str = "",
    ) -> Any:
        """The body of an answer with this status."""
        reply = await self.call(service, method, path, body, token, kind)
        assert reply.status == status, f"{method} {path}: {reply}"
        return reply.body


@asynccontextmanager
async def running(directory: Path, database_url: str, redis_url: str = "", **settings: str) -> AsyncIterator[Cluster]:
    """The processes over a migrated relational store, control's ready; they are killed at the end. Query has no
    ClickHouse: what its guard lets through is a bad request.
    """
    urls = {"SLUICE_DATABASE_URL": database_url, "SLUICE_CLICKHOUSE_URL": f"http://127.0.0.1:{free_port()}/none"}
    environment = {**urls, **SETTINGS, **settings}
    if redis_url:
        environment["SLUICE_REDIS_URL"] = redis_url
    names = [*(f"control-{number}" for number in range(CONTROLS)), "query"]
    services = [
        Service(name.partition("-")[0], directory / name, directory / f"{name}.log", environment) for name in names
    ]
    database = Database(database_url, max_wait_s=WAIT_S)
    await database.start()
    try:
        for service in services:
            service.begin()
        for service in services[:CONTROLS]:
            service.wait_until_ready()
        services[CONTROLS].wait_until_alive()
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            yield Cluster(services[:CONTROLS], services[CONTROLS], database, http)
    finally:
        for service in services:
            service.kill()
        await database.close()


class Probe(NamedTuple):
    """A credential, and a request with it to control and to query; the latter has none for a session's account."""

    name: str
    token: str
    control_path: str
    query_path: str | None


@dataclass
class Person:
    """Whom the directory knows. `refresh_tokens`: all of one family, the newest last."""

    email: str
    adopted: bool
    user_id: str = ""
    probes: list[Probe] = field(default_factory=list)
    access_token: str = ""
    refresh_tokens: list[str] = field(default_factory=list)
    invitation: str = ""
    request_id: str = ""

    def resource(self, *, active: bool = True) -> dict[str, Any]:
        emails = [{"value": self.email, "primary": True}]
        return {"schemas": [USER], "userName": self.email, "emails": emails, "active": active}


class Sample(NamedTuple):
    """A request of a watch. `status` 0: the process had ended."""

    started: float
    ended: float
    name: str
    status: int

    @property
    def is_accepted(self) -> bool:
        """Whether the credential was good for anything."""
        return not self.is_refused and self.status != UNDECIDED

    @property
    def is_refused(self) -> bool:
        """Whether it was good for nothing."""
        return self.status in (0, 401, 404)


@dataclass
class Watch:
    """A client of one process that uses every credential of a person, one after the other, until `hurry` is called:
    from then on all of them at once, until none of them works any more.
    """

    cluster: Cluster
    service: Service
    probes: list[Probe]
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.service is self.cluster.query:
            self.probes = [probe for probe in self.probes if probe.query_path is not None]
        self._urgent, self._all_refused = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> Self:
        """Begin."""
        self._task = asyncio.create_task(self._run())
        return self

    def hurry(self) -> None:
        self._urgent.set()

    async def until_refused(self, seconds: float) -> None:
        """Wait for that, but no longer."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_refused.wait(), seconds)

    @property
    def is_over(self) -> bool:
        """Whether every credential was refused."""
        return self._all_refused.is_set()

    async def until_used(self) -> None:
        """Wait until each credential was good once: the guard has it in its cache."""
        names = {probe.name for probe in self.probes}
        while not names <= {sample.name for sample in self.samples if sample.is_accepted}:
            assert self._task is not None
            assert not self._task.done(), self._task
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def accepted_after(self, moment: float) -> float:
        """The seconds from that moment to the last request that was accepted; 0 if none was."""
        return max(
            (one.started - moment for one in self.samples if one.is_accepted and one.started > moment), default=0
        )

    def longest_request(self, moment: float) -> float:
        """In seconds, of those that ended after that moment."""
        return max((one.ended - one.started for one in self.samples if one.ended > moment), default=0)

    async def ask(self, probe: Probe) -> Sample:
        path = probe.control_path if self.service in self.cluster.controls else probe.query_path
        assert path is not None
        started = time.monotonic()
        try:
            status = (await self.cluster.ask(self.service, "GET", path, token=probe.token)).status
        except aiohttp.ClientConnectionError:
            status = 0
        self.samples.append(Sample(started, time.monotonic(), probe.name, status))
        return self.samples[-1]

    async def ask_all(self) -> list[Sample]:
        """Use each credential once."""
        return await asyncio.gather(*(self.ask(probe) for probe in self.probes))

    async def statuses(self) -> dict[str, int]:
        """The same, by name, and again what is undecided."""
        found: dict[str, int] = {}
        while len(found) < len(self.probes):
            samples = await asyncio.gather(*(self.ask(probe) for probe in self.probes if probe.name not in found))
            found |= {sample.name: sample.status for sample in samples if sample.status != UNDECIDED}
        return found

    async def _run(self) -> None:
        await self.ask_all()
        while not self._urgent.is_set():
            for probe in self.probes:
                await self.ask(probe)
                if not self._urgent.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._urgent.wait(), CALM_S)
        for number in itertools.count():
            samples = await self.ask_all()
            if all(sample.is_refused for sample in samples):
                break
            await asyncio.sleep(URGENT_S[number >= URGENT_ROUNDS])
        self._all_refused.set()
        while True:
            for probe in self.probes:
                await self.ask(probe)
                await asyncio.sleep(CALM_S)


@dataclass
class Grabber:
    """Somebody who hears of the end: makes tokens, and refreshes the session, until that is refused."""

    cluster: Cluster
    service: Service
    organization: "Organization"
    person: Person
    refreshes: bool
    grabbed: list[Probe] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def run(self) -> None:
        token = self.person.probes[0].token
        for number in range(GRABS):
            started = time.monotonic()
            path, body = f"{self.organization.path}/tokens", {"name": f"grabbed-{number}"}
            made = await self.cluster.ask(self.service, "POST", path, body, token)
            if made.status == 201:
                self.times.append(started)
                self.grabbed.append(self.organization.probe(f"grabbed-{number}", made.body["token"]))
            if self.refreshes:
                started = time.monotonic()
                body = {"refreshToken": self.person.refresh_tokens[-1]}
                refreshed = await self.cluster.ask(self.service, "POST", "/auth/refresh", body)
                if refreshed.status == 200:
                    self.times.append(started)
                    self.person.refresh_tokens.append(refreshed.body["tokens"]["refreshToken"])
                    access = refreshed.body["tokens"]["accessToken"]
                    self.grabbed.append(self.organization.probe(f"refreshed-{number}", access))
            if made.status in (401, 404):
                return
            await asyncio.sleep(GRAB_S)


@dataclass
class Organization:
    """An organization, its directory, and an administrator who approves."""

    cluster: Cluster
    tenant: Tenant
    approver: str
    scim_token: str

    @property
    def path(self) -> str:
        return f"/orgs/{self.tenant.organization.slug}"

    def probe(self, name: str, token: str) -> Probe:
        return Probe(name, token, f"{self.path}/projects?limit=1", f"{self.path}/projects/web/explore/spans?limit=none")

    async def scim(self, status: int, service: Service, method: str, path: str, body: object = None) -> Any:
        """What the directory is answered with this status."""
        path = f"/scim/v2/{self.tenant.organization.slug}{path}"
        return await self.cluster.expect(status, service, method, path, body, self.scim_token, SCIM if body else "")

    async def hire(self, number: int, *, adopted: bool) -> Person:
        """A member whom the directory has provisioned; `adopted`: who had been invited, and had a password, before."""
        person = Person(f"person-{number}@example.com", adopted)
        if adopted:
            await self._join(person)
        await self.provision(person)
        if not adopted:
            await self._log_in(person)
        await self._equip(person)
        return person

    async def provision(self, person: Person) -> None:
        made = await self.scim(201, self.cluster.controls[0], "POST", "/Users", person.resource())
        person.user_id = made["id"]

    async def take_out(self, person: Person, manner: str, service: Service) -> float:
        """Deactivate or delete; when the answer was there."""
        path = f"/Users/{person.user_id}"
        if manner == "DELETE":
            await self.scim(204, service, "DELETE", path)
        elif manner == "PUT":
            await self.scim(200, service, "PUT", path, person.resource(active=False))
        else:
            await self.scim(200, service, "PATCH", path, _set_active(active=False))
        return time.monotonic()

    async def take_back(self, person: Person, manner: str, service: Service) -> Probe:
        """Activate, or provision again who was deleted; a session that begins then."""
        if manner == "DELETE":
            await self.provision(person)
        else:
            await self.scim(200, service, "PATCH", f"/Users/{person.user_id}", _set_active(active=True))
        refresh_token = await self._start_session(person)
        body = {"refreshToken": refresh_token}
        fresh = await self.cluster.expect(200, service, "POST", "/auth/refresh", body)
        return self.probe("later session", fresh["tokens"]["accessToken"])

    def watch(self, person: Person) -> list[Watch]:
        """A watch of each process."""
        services = (*self.cluster.controls, self.cluster.query)
        return [Watch(self.cluster, service, person.probes).start() for service in services]

    async def vote(self, request_id: str, token: str, service: Service) -> Any:
        path = f"{self.path}/approval-requests/{request_id}/approve"
        return await self.cluster.expect(200, service, "POST", path, {}, token)

    async def accept_invitation(self, person: Person, service: Service) -> int:
        """Try it; the status."""
        body = {"inviteToken": person.invitation, "name": "Guest", "password": PASSWORD}
        return (await self.cluster.call(service, "POST", "/auth/invitations/accept", body)).status

    async def _join(self, person: Person) -> None:
        """By an invitation."""
        control, invited = self.cluster.controls[0], {"email": person.email, "role": "ADMIN"}
        owner = self.tenant.token.secret
        made = await self.cluster.expect(201, control, "POST", f"{self.path}/invitations", invited, owner)
        body = {"inviteToken": made["inviteToken"], "name": "Adopted", "password": PASSWORD}
        joined = await self.cluster.expect(201, control, "POST", "/auth/invitations/accept", body)
        person.access_token = joined["tokens"]["accessToken"]
        person.refresh_tokens = [joined["tokens"]["refreshToken"]]

    async def _log_in(self, person: Person) -> None:
        """As after single sign-on, which gives a session."""
        first = await self._start_session(person)
        refreshed = await self.cluster.expect(
            200, self.cluster.controls[0], "POST", "/auth/refresh", {"refreshToken": first}
        )
        person.access_token = refreshed["tokens"]["accessToken"]
        person.refresh_tokens = [first, refreshed["tokens"]["refreshToken"]]

    async def _start_session(self, person: Person) -> str:
        org_id = self.tenant.organization.id
        async with self.cluster.database.write() as connection:
            user = await user_store.find(connection, org_id, person.user_id)
            assert user is not None
            assert user.principal_id is not None
            started = await session_store.start(connection, org_id, user.principal_id, ("fed",), datetime.now(UTC))
        return started.refresh_token

    async def _equip(self, person: Person) -> None:
        """Give the person everything that must end: tokens, agents and services, an invitation, a vote."""
        control, session = self.cluster.controls[0], person.access_token

        async def make(path: str, token: str = session, **body: Any) -> Any:
            return await self.cluster.expect(201, control, "POST", self.path + path, body, token)

        own = await make("/tokens", name="own")
        agent = await make("/principals", kind="agent", name="agent", role="MEMBER")
        delegated = await make(f"/principals/{agent['principalId']}/tokens", name="delegated")
        derived = await make("/tokens", token=delegated["token"], name="derived")
        service = await make("/principals", kind="service", name="service", role="MEMBER")
        of_service = await make(f"/principals/{service['principalId']}/tokens", name="of the service")
        person.probes = [
            self.probe("personal token", own["token"]),
            self.probe("session", session),
            Probe("account", session, "/auth/user", None),
            self.probe("agent's token", delegated["token"]),
            self.probe("token that the agent made", derived["token"]),
            self.probe("service's token", of_service["token"]),
        ]
        invited = {"email": f"guest-of-{person.email}", "role": "MEMBER"}
        person.invitation = (await make("/invitations", **invited))["inviteToken"]
        asked = {"action": "deploy.start", "targetType": "service", "targetId": person.email}
        made = await make("/approval-requests", token=self.tenant.token.secret, **asked)
        person.request_id = made["request"]["id"]
        voted = await self.vote(person.request_id, session, control)
        assert (voted["request"]["status"], voted["approvals"]) == ("PENDING", 1), voted


async def new_organization(cluster: Cluster, slug: str, *, has_successor: bool) -> Organization:
    """Two approvals decide; whom the directory provisions is an administrator; their machines go to another one, or
    end.
    """
    tenant = await new_tenant(cluster.database, slug)
    approver_id, approver = await new_member_token(cluster.database, tenant, Role.ADMIN)
    control, owner, path = cluster.controls[0], tenant.token.secret, f"/orgs/{slug}"
    token = await cluster.expect(201, control, "POST", f"{path}/scim-tokens", {"name": "Directory"}, owner)
    connection = {"roleMapping": None, "defaultRole": "ADMIN"}
    await cluster.expect(200, control, "PUT", f"{path}/sso/connections/OIDC", connection, owner)
    rule = {"name": "Two", "actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH", "minApprovers": 2}
    await cluster.expect(201, control, "POST", f"{path}/approval-policies", rule, owner)
    if has_successor:
        settings = {"successorPrincipalId": approver_id}
        await cluster.expect(200, control, "PUT", f"{path}/scim-settings", settings, owner)
    return Organization(cluster, tenant, approver, token["token"])


def _set_active(*, active: bool) -> dict[str, Any]:
    return {"schemas": [PATCH], "Operations": [{"op": "replace", "path": "active", "value": active}]}
