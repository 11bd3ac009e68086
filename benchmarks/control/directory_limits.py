"""The cost of the largest legal SCIM requests: the time and the memory of each, and the longest time in which the event
loop answers no other request meanwhile (another process requests `GET /livez` every few milliseconds).

The directory is written into the database, without accounts: as many users as one group can have members.
"""

import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
import uvloop

from benchmarks.control.directory import GROUP, PATCH, SCIM, USER, connected, serving
from benchmarks.control.service import Served
from benchmarks.processes import peak_mib, probed, resident_mib
from benchmarks.report import Table, quantiles_ms
from benchmarks.stores import database, opened, wanted_databases
from chassis.auth.tables import new_id, organizations
from control.identity.directory.tables import scim_group_members, scim_groups, scim_user_emails, scim_users
from control.identity.scim.messages import MAX_COUNT
from control.identity.scim.protocol.listing import MAX_LISTED
from control.identity.scim.protocol.members import MAX_MEMBERS
from control.identity.scim.protocol.patch import MAX_OPERATIONS
from control.identity.scim.protocol.users import MAX_DOCUMENT_BYTES

_ROWS: Final = 5_000  # in one statement
_BODY_BYTES: Final = 256 * 1_024  # that a request may have
_MEMBER_BYTES: Final = 44  # of them for a member


class Request(NamedTuple):
    """A request and its name."""

    name: str
    method: str
    path: str
    body: object = None


class Filled(NamedTuple):
    """The ids of what is in the directory: the user has the largest document, the group all users."""

    users: Sequence[str]
    groups: Sequence[str]
    large_user: str
    large_group: str


def measure(directory: Path, arguments: Namespace) -> None:
    """Print a table for each database that `--database` names."""
    for name in wanted_databases(arguments.database):
        with database(name, directory / name) as url, serving(directory / f"{name}-control", url) as control:
            filled = uvloop.run(_fill(url))
            uvloop.run(_measure(name, control, filled))


async def _measure(name: str, control: Served, filled: Filled) -> None:
    columns = {f"{name}: a group of {len(filled.users)} users": "", "status": "", "s": ".2f"}
    columns |= {"/livez p50, p99, longest ms": ".1f", "KiB of response": ".0f", "MiB after it": ".0f"}
    table = Table(columns)
    async with connected(control) as directory:
        for request in _requests(filled):
            headers = {"Authorization": f"Bearer {directory.token}", "Content-Type": SCIM}
            data = None if request.body is None else msgspec.json.encode(request.body)
            url = f"http://127.0.0.1:{control.port}/scim/v2/acme{request.path}"
            waits: list[float] = []
            with probed(control.port, waits):
                began = time.perf_counter()
                async with directory.session.request(request.method, url, data=data, headers=headers) as response:
                    size, status = len(await response.read()), response.status
                elapsed = time.perf_counter() - began
            mib = resident_mib(control.pid)
            table.row(request.name, status, elapsed, quantiles_ms(waits, 0.5, 0.99, 1), size / 1_024, mib)
    print(f"\nresident: {peak_mib(control.pid):.0f} MiB at most, {resident_mib(control.pid):.0f} after", flush=True)


def _requests(filled: Filled) -> Iterator[Request]:
    group, user = f"/Groups/{filled.large_group}", f"/Users/{filled.large_user}"
    bare = f"{group}?excludedAttributes=members"
    yield Request("the group", "GET", group)
    yield Request("the group, projected", "GET", f"{group}?excludedAttributes=externalId")
    yield Request("the group without members", "GET", bare)
    yield Request("one member removed", "PATCH", bare, _patch(_remove(f'members[value eq "{filled.users[0]}"]')))
    yield Request("a filter of members removed", "PATCH", bare, _patch(_remove(f'members[value eq "{user}x"]')))
    yield Request(
        "all members but one removed", "PATCH", bare, _patch(_remove(f'members[not (value eq "{filled.users[1]}")]'))
    )
    some = [{"value": id_} for id_ in filled.users[: (_BODY_BYTES - 1_000) // _MEMBER_BYTES]]
    yield Request(f"{len(some)} members put", "PUT", group, {"schemas": [GROUP], "displayName": "All", "members": some})
    yield Request("the group deleted", "DELETE", group)
    yield Request(f"{MAX_COUNT} users with {MAX_LISTED} groups", "GET", f"/Users?count={MAX_COUNT}")
    yield Request(f"{MAX_COUNT} users, projected", "GET", f"/Users?count={MAX_COUNT}&attributes=userName,emails")
    yield Request(f"{MAX_COUNT} groups", "GET", f"/Groups?count={MAX_COUNT}")
    yield Request(f"{MAX_COUNT} groups, projected", "GET", f"/Groups?count={MAX_COUNT}&excludedAttributes=externalId")
    yield Request("a user with the largest document", "GET", user)
    yield Request("the same, projected", "GET", f"{user}?attributes=userName")
    yield Request(f"{MAX_OPERATIONS} operations on it", "PATCH", user, _patch(*_operations()))
    comparisons = " or ".join(f'emails.value co "nobody{number}"' for number in range(50))
    yield Request("a filter of 50 comparisons that nobody matches", "GET", f"/Users?filter={comparisons}")


def _operations() -> Iterator[dict[str, Any]]:
    for number in range(MAX_OPERATIONS):
        yield {"op": "replace", "path": f'roles[value eq "role{number:05d}"].display', "value": f"{number}"}


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"schemas": [PATCH], "Operations": operations}


def _remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


async def _fill(url: str) -> Filled:
    """MAX_MEMBERS users in one group; the first MAX_COUNT in as many more as a page shows."""
    users = [new_id("scu") for _ in range(MAX_MEMBERS)]
    groups = [new_id("scg") for _ in range(MAX_LISTED // MAX_COUNT - 1)]
    large_user, large_group = users[-1], new_id("scg")
    async with opened(url) as store, store.write() as connection:
        org_id = await connection.scalar(sa.select(organizations.c.id))
        now = datetime.now(UTC)
        rows: dict[sa.Table, Iterator[dict[str, Any]]] = {
            scim_users: (_user(id_, number, org_id, now, id_ == large_user) for number, id_ in enumerate(users)),
            scim_user_emails: (_email(id_, number, org_id) for number, id_ in enumerate(users)),
            scim_groups: (_group(id_, number, org_id, now) for number, id_ in enumerate([*groups, large_group])),
            scim_group_members: (
                {"group_id": group, "user_id": user, "org_id": org_id}
                for group, members in ((large_group, users), *((group, users[:MAX_COUNT]) for group in groups))
                for user in members
            ),
        }
        for table, all_rows in rows.items():
            async for batch in _batches(all_rows):
                await connection.execute(table.insert(), batch)
    return Filled(users, groups, large_user, large_group)


async def _batches(rows: Iterator[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _user(id_: str, number: int, org_id: str | None, now: datetime, is_large: bool) -> dict[str, Any]:
    name = f"person{number}@example.com"
    document: dict[str, Any] = {"schemas": [USER], "userName": name, "emails": [{"value": name, "type": "work"}]}
    if is_large:
        one = msgspec.json.encode(_role(0))
        document["roles"] = [_role(each) for each in range((MAX_DOCUMENT_BYTES - 2_000) // (len(one) + 1))]
    return {
        "id": id_,
        "org_id": org_id,
        "owns_account": False,
        "user_name": name,
        "active": False,
        "document": document,
        "version": 1,
        "created_at": now,
        "updated_at": now,
    }


def _role(number: int) -> dict[str, str]:
    return {"value": f"role{number:05d}", "display": "x"}


def _email(id_: str, number: int, org_id: str | None) -> dict[str, Any]:
    value = f"person{number}@example.com"
    return {"user_id": id_, "position": 0, "org_id": org_id, "value": value, "type": "work", "is_primary": True}


def _group(id_: str, number: int, org_id: str | None, now: datetime) -> dict[str, Any]:
    return {
        "id": id_,
        "org_id": org_id,
        "display_name": f"Group {number}",
        "display_name_folded": f"group {number}",
        "version": 1,
        "created_at": now,
        "updated_at": now,
    }
