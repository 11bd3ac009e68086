"""Hostile bodies, eight at once of as many organizations, and what somebody else waits meanwhile."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.control.service import Served, served
from benchmarks.processes import peak_mib, probed, reset_peak, resident_mib
from benchmarks.proofs.hostile_bodies import SMALL, Case, cases
from benchmarks.proofs.making import ISSUER, KEY
from benchmarks.report import MIB, Table
from benchmarks.stores import opened
from chassis.auth.tables import new_id
from control.approvals.proofs import issuers
from control.approvals.proofs.issuers import MAX_ACTIVE_KEYS, MAX_KEYS
from control.approvals.proofs.tables import IssuerKey, KeyAlgorithm, proof_issuer_keys
from proto.proofs import dsse
from tests.chassis.auth.tenants import new_tenant
from tests.e2e.product import Answer, call

AT_ONCE: Final = 8
_QUIET_S: Final = 2.0
_FROM: Final = datetime(2026, 1, 1, tzinfo=UTC)


class _Tenant(NamedTuple):
    slug: str
    token: str


class _Seen(NamedTuple):
    """While something was done: s, s of CPU, MiB above idle at most and afterwards, ms that /livez took at most."""

    seconds: float
    cpu_s: float
    most: float
    after: float
    wait_ms: float


class _Target(NamedTuple):
    """A service with organizations, the MiB that it takes when it does nothing, and the table of what it does."""

    table: Table
    control: Served
    tenants: Sequence[_Tenant]
    idle: float


def measure(directory: Path, *, together: bool) -> None:
    """Prints a row for each body, and for what is read back of the legal ones. Each has a service of its own, so that
    none is given memory that an earlier one has left; or all have the same, `together`.
    """
    every = cases()
    columns = {f"{AT_ONCE} at once, of organizations with {MAX_ACTIVE_KEYS} keys": "", "MiB of each": ".1f"}
    columns |= {"answers": "", "s": ".2f", "CPU s": ".2f", "MiB above idle: most, after": ".0f"}
    table = Table({**columns, "longest wait of another request, ms": ".0f"})
    for number, group in enumerate([every] if together else [[case] for case in every]):
        url = f"sqlite:///{directory / f'{number}.db'}"
        with served(directory / f"{number}", url) as control:
            tenants = asyncio.run(_tenants(url))
            small = next(case for case in every if case.name == SMALL)
            for at in range(AT_ONCE):  # imports and caches
                _validate(control, tenants, small, at)
            target = _Target(table, control, tenants, resident_mib(control.pid))
            if not number:
                _report(table, "nothing", 0, {}, _watched(target, lambda: time.sleep(_QUIET_S)))
            for case in group:
                _hand_in(target, case)
                if case.name == SMALL:
                    asyncio.run(_register_more(url))
                    _hand_in(target, case._replace(name=f"the same again, {MAX_KEYS} keys each", is_legal=False))


def _hand_in(target: _Target, case: Case) -> None:
    control, tenants = target.control, target.tenants
    bodies, answers = [case.make(tenant.slug) for tenant in tenants], list[Answer]()

    def send(at: int) -> Answer:
        path = f"/orgs/{tenants[at].slug}/projects/web/proof-bundles{'' if case.is_legal else '/validate'}"
        headers = {"Authorization": f"Bearer {tenants[at].token}", "Content-Type": case.media_type}
        return call("POST", f"http://127.0.0.1:{control.port}{path}", bodies[at], headers)

    seen = _watched(target, lambda: answers.extend(_together(send)))
    statuses = Counter(_outcome(one, case) for one in answers)
    _report(target.table, case.name, len(bodies[0]), statuses, seen)
    if not case.is_legal:
        return
    if set(statuses) != {"201"}:
        raise SystemExit(f"{case.name}: {answers[0].body[:1_000]!r}")
    ids = [str(one.json()["bundleId"]) for one in answers]
    answers.clear()
    seen = _watched(target, lambda: answers.extend(_together(lambda at: _show(control, tenants[at], ids[at]))))
    _report(target.table, "- read back", len(bodies[0]), Counter(str(one.status) for one in answers), seen)


def _validate(control: Served, tenants: Sequence[_Tenant], case: Case, at: int) -> None:
    path = f"/orgs/{tenants[at].slug}/projects/web/proof-bundles/validate"
    headers = {"Authorization": f"Bearer {tenants[at].token}", "Content-Type": case.media_type}
    answer = call("POST", f"http://127.0.0.1:{control.port}{path}", case.make(tenants[at].slug), headers)
    if answer.status != 200 or answer.json()["signature"] is None:
        raise SystemExit(f"{case.name}: {answer}")


def _show(control: Served, tenant: _Tenant, bundle_id: str) -> Answer:
    path = f"/orgs/{tenant.slug}/projects/web/proof-bundles/{bundle_id}"
    return call("GET", f"http://127.0.0.1:{control.port}{path}", None, {"Authorization": f"Bearer {tenant.token}"})


def _outcome(answer: Answer, case: Case) -> str:
    """The status; of a validation, which is always answered with 200, whether the body is valid."""
    if case.is_legal or answer.status != 200:
        return str(answer.status)
    return "valid" if answer.json()["valid"] else f"invalid ({len(answer.json()['errors'])} errors)"


def _together(send: Callable[[int], Answer]) -> list[Answer]:
    with ThreadPoolExecutor(AT_ONCE) as senders:
        return list(senders.map(send, range(AT_ONCE)))


def _report(table: Table, name: str, size: int, statuses: dict[str, int], seen: _Seen) -> None:
    answers = ", ".join(f"{number} x {status}" for status, number in statuses.items())
    table.row(name, size / MIB, answers, seen.seconds, seen.cpu_s, (seen.most, seen.after), seen.wait_ms)


def _watched(target: _Target, work: Callable[[], object]) -> _Seen:
    """What the service takes while something is done."""
    control, waits = target.control, list[float]()
    reset_peak(control.pid)
    with probed(control.port, waits):
        before, begun = control.cpu_s(), time.perf_counter()
        work()
        taken, spent = time.perf_counter() - begun, control.cpu_s() - before
    most, after = (size - target.idle for size in (peak_mib(control.pid), resident_mib(control.pid)))
    return _Seen(taken, spent, most, after, max(waits) * 1e3)


async def _tenants(url: str) -> list[_Tenant]:
    """Organizations with as many keys as can be valid; the last one has signed what is signed."""
    made = []
    async with opened(url) as database:
        for number in range(AT_ONCE):
            tenant = await new_tenant(database, f"org-{number}")
            strangers = [Ed25519PrivateKey.generate() for _ in range(MAX_ACTIVE_KEYS - 1)]
            async with database.write() as connection:
                for key in (*strangers, KEY):
                    stored = _issuer_key(tenant.organization.id, key)
                    await issuers.create_key(connection, stored, datetime.now(UTC))
            made.append(_Tenant(f"org-{number}", str(tenant.token.secret)))
    return made


async def _register_more(url: str) -> None:
    """As many revoked keys as there can be."""
    columns = proof_issuer_keys.c
    async with opened(url) as database, database.write() as connection:
        for org_id in list(await connection.scalars(sa.select(columns.org_id).distinct())):
            keys = [_issuer_key(org_id, Ed25519PrivateKey.generate()) for _ in range(MAX_KEYS - MAX_ACTIVE_KEYS)]
            revoked = {"revoked_at": _FROM, "revocation_reason": "stolen"}
            rows = [{column.name: getattr(key, column.name) for column in columns} | revoked for key in keys]
            await connection.execute(proof_issuer_keys.insert(), rows)


def _issuer_key(org_id: str, key: Ed25519PrivateKey) -> IssuerKey:
    return IssuerKey(
        id=new_id("pik"),
        org_id=org_id,
        issuer=ISSUER,
        name="CI",
        key_id=dsse.default_key_id(key.public_key()),
        algorithm=KeyAlgorithm.ED25519,
        public_key=dsse.public_pem(key.public_key()),
        valid_from=_FROM,
        valid_until=None,
        revoked_at=None,
        revocation_reason=None,
        created_by=None,
        created_at=_FROM,
    )
