"""The first sync of a directory over SCIM, a full resync, and people who leave: one control process on one core.

Users come one at a time, as Okta and Microsoft Entra ID create them, members of a group some at a time with PATCH. The
resync asks for each user by `userName`, for each group without its members, and pages through all users. Beside it, the
cost of a read of the control API in the same process.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import uvloop

from benchmarks.control.service import Served, served
from benchmarks.overload.deployment import Cores
from benchmarks.processes import peak_mib, resident_mib
from benchmarks.report import Table, quantiles_ms
from benchmarks.stores import database, wanted_databases

CONNECTIONS: Final = 8
PATCH_MEMBERS: Final = 10  # that one request adds
GROUPS_OF_USER: Final = 2
MAX_UNAVAILABLE: Final = 1_000  # responses of 503, on a machine that is busy with other work
LEAVERS: Final = 1_000
PAGE: Final = 100  # what directories ask for
EDGE_PAGES: Final = 50  # at either end of the list
READS: Final = 2_000  # of what the rest is compared with
MEMBERS: Final = 20  # that such a read shows
READ: Final = f"GET /orgs/acme/members, {MEMBERS} of them"
SCIM: Final = "application/scim+json"
PATCH: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

Send = Callable[[Any], Awaitable[None]]


def measure(directory: Path, arguments: Namespace) -> None:
    """Print a table for each database that `--database` names."""
    for name in wanted_databases(arguments.database):
        with database(name, directory / name) as url, serving(directory / f"{name}-control", url) as control:
            uvloop.run(_measure(name, control, arguments.users, arguments.groups))


def serving(directory: Path, url: str) -> AbstractContextManager[Served]:
    """The control service on a core of its own."""
    return served(directory, url, cores=Cores.split().gateway[:1])


@dataclass
class Directory:
    """Who provisions the organization; `ids` of its users by number; `unavailable`: how many responses were 503."""

    control: Served
    session: aiohttp.ClientSession
    token: str
    ids: dict[int, str] = field(default_factory=dict)
    groups: dict[int, str] = field(default_factory=dict)
    unavailable: int = 0

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """The decoded response; asked again after a 503. Raises SystemExit for another one that refuses."""
        content_type = SCIM if path.startswith("/scim/") else "application/json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        data = None if body is None else msgspec.json.encode(body)
        url = f"http://127.0.0.1:{self.control.port}{path}"
        while True:
            async with self.session.request(method, url, data=data, headers=headers) as response:
                raw = await response.read()
            if response.status in (200, 201, 204):
                return msgspec.json.decode(raw) if raw else None
            if response.status != 503 or self.unavailable == MAX_UNAVAILABLE:
                raise SystemExit(f"{method} {path}: {response.status} {raw[:500].decode(errors='replace')}")
            self.unavailable += 1
            await asyncio.sleep(1)

    async def scim(self, method: str, path: str, body: object = None) -> Any:
        """The decoded response of SCIM."""
        return await self.call(method, f"/scim/v2/acme{path}", body)

    async def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        """Change a resource."""
        return await self.scim("PATCH", path, {"schemas": [PATCH], "Operations": operations})


@asynccontextmanager
async def connected(control: Served) -> AsyncIterator[Directory]:
    """The directory of the organization, with a token."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS + 2)) as session:
        owner = Directory(control, session, control.tokens[0])
        made = await owner.call("POST", "/orgs/acme/scim-tokens", {"name": "Benchmark"})
        yield Directory(control, session, made["token"])


def described_user(number: int) -> dict[str, Any]:
    """A user as Entra describes it."""
    name = f"person{number}@example.com"
    return {
        "schemas": [USER, ENTERPRISE],
        "externalId": f"00u{number:017d}",
        "userName": name,
        "active": True,
        "displayName": f"Person Number{number}",
        "name": {"formatted": f"Person Number{number}", "familyName": f"Number{number}", "givenName": "Person"},
        "emails": [{"primary": True, "type": "work", "value": name}],
        "title": "Engineer",
        "preferredLanguage": "en",
        ENTERPRISE: {"employeeNumber": f"{number}", "department": f"Department {number % 50}"},
    }


async def _measure(name: str, control: Served, users: int, groups: int) -> None:
    empty = resident_mib(control.pid)
    async with connected(control) as directory:
        owner = Directory(control, directory.session, control.tokens[0])
        for number in range(MEMBERS):
            await directory.scim("POST", "/Users", described_user(users + number))
        rows = Rows(control, f"{name}: {users} users, {groups} groups, {CONNECTIONS} connections")

        async def read(_: int) -> None:
            await owner.call("GET", f"/orgs/acme/members?limit={MEMBERS}")

        async def live(_: int) -> None:
            await owner.call("GET", "/livez")

        await rows.add(READ, range(READS), read)
        await rows.add("GET /livez", range(READS), live)
        await _first_sync(rows, directory, users, groups)
        await rows.add(READ, range(READS), read)
        await _resync(rows, directory, users, groups)
        await _pages(rows, directory, users)
        await _leave(rows, directory, users)
        if directory.unavailable:
            print(f"\n{directory.unavailable} responses of 503, asked again")
    now = resident_mib(control.pid)
    print(f"\nresident: {empty:.0f} MiB before, {peak_mib(control.pid):.0f} at most, {now:.0f} after", flush=True)


async def _first_sync(rows: "Rows", directory: Directory, users: int, groups: int) -> None:
    async def create_user(number: int) -> None:
        directory.ids[number] = (await directory.scim("POST", "/Users", described_user(number)))["id"]

    async def create_group(number: int) -> None:
        body = {"schemas": [GROUP], "displayName": f"Group {number}", "externalId": f"00g{number:017d}"}
        directory.groups[number] = (await directory.scim("POST", "/Groups", body))["id"]

    async def add_members(step: tuple[int, Sequence[int]]) -> None:
        group, numbers = step
        members = [{"value": directory.ids[number]} for number in numbers]
        path = f"/Groups/{directory.groups[group]}?excludedAttributes=members"
        await directory.patch(path, {"op": "Add", "path": "members", "value": members})

    await rows.add("POST /Users", range(users), create_user)
    await rows.add("POST /Groups", range(groups), create_group)
    await rows.add(f"PATCH /Groups/{{id}}, {PATCH_MEMBERS} members", list(_memberships(users, groups)), add_members)


def _memberships(users: int, groups: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Group and users of each request; every user is in GROUPS_OF_USER groups."""
    size = max(1, users * GROUPS_OF_USER // max(1, groups))
    for group in range(groups):
        numbers = sorted({(group * size + each) % users for each in range(size)})
        for start in range(0, len(numbers), PATCH_MEMBERS):
            yield group, numbers[start : start + PATCH_MEMBERS]


async def _resync(rows: "Rows", directory: Directory, users: int, groups: int) -> None:
    async def find(number: int) -> None:
        page = await directory.scim("GET", f'/Users?filter=userName eq "person{number}@example.com"')
        if page["totalResults"] != 1:
            raise SystemExit(page)

    async def show(number: int) -> None:
        await directory.scim("GET", f"/Groups/{directory.groups[number]}?excludedAttributes=members")

    await rows.add("GET /Users, userName eq", range(users), find)
    await rows.add("GET /Groups/{id} without members", range(groups), show)


async def _pages(rows: "Rows", directory: Directory, users: int) -> None:
    """Page through everybody, by index and by cursor, on one connection; then the first and the last pages."""
    for kind in ("index", "cursor"):
        seconds: list[float] = []
        seen, cursor, before = 0, "", directory.control.cpu_s()
        while seen < users:
            place = f"startIndex={seen + 1}" if kind == "index" else f"cursor={cursor}"
            began = time.perf_counter()
            page = await directory.scim("GET", f"/Users?count={PAGE}&{place}")
            seconds.append(time.perf_counter() - began)
            seen += len(page["Resources"])
            cursor = page.get("nextCursor", "")
        cpu = (directory.control.cpu_s() - before) / len(seconds)
        rows.print(f"pages of {PAGE} users by {kind}", seconds, sum(seconds), cpu)
        edge = min(EDGE_PAGES, len(seconds) // 2 or 1)
        for name, some in (("first", seconds[:edge]), ("last", seconds[-edge:])):
            rows.print(f"the {name} {edge} of them", some, sum(some), None)


async def _leave(rows: "Rows", directory: Directory, users: int) -> None:
    async def deactivate(number: int) -> None:
        await directory.patch(f"/Users/{directory.ids[number]}", {"op": "Replace", "path": "active", "value": "False"})

    await rows.add("PATCH /Users/{id}, active false", range(min(LEAVERS, users)), deactivate)


class Rows:
    """The rows of the table, compared with the first."""

    def __init__(self, control: Served, title: str) -> None:
        self._control = control
        columns = {title: "", "requests": "", "requests/s": ".0f", "p50, p99 ms": ".1f", "MiB": ".0f"}
        self._table = Table({**columns, "CPU ms of control": ".2f"}, compared="CPU ms of control")

    async def add(self, name: str, work: Iterable[Any], send: Send) -> None:
        """Send it all over CONNECTIONS connections and print the row."""
        seconds: list[float] = []
        steps = iter(work)

        async def one() -> None:
            for step in steps:
                began = time.perf_counter()
                await send(step)
                seconds.append(time.perf_counter() - began)

        before, began = self._control.cpu_s(), time.perf_counter()
        async with asyncio.TaskGroup() as senders:
            for _ in range(CONNECTIONS):
                senders.create_task(one())
        elapsed = time.perf_counter() - began
        self.print(name, seconds, elapsed, (self._control.cpu_s() - before) / len(seconds))

    def print(self, name: str, seconds: Sequence[float], elapsed: float, cpu: float | None) -> None:
        """A row of requests that took so many seconds each, so many together, and so many of CPU on average."""
        times, cpu_ms = quantiles_ms(seconds, 0.5, 0.99), None if cpu is None else cpu * 1e3
        mib = resident_mib(self._control.pid)
        self._table.row(name, len(seconds), len(seconds) / elapsed, times, mib, cpu_ms)
