"""Pages of a project with many bundles, beside those of a project with a few."""

import asyncio
import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

import psycopg

from benchmarks.control.service import Served, served
from benchmarks.processes import cpu_s
from benchmarks.proofs import stored
from benchmarks.proofs.making import PATH
from benchmarks.proofs.serving import register
from benchmarks.proofs.stored import Project
from benchmarks.report import Table
from chassis.http.cursor import CursorSigner, load_cursor_signer
from chassis.http.route import read_query
from chassis.http.validation import Issues
from control.approvals.proofs.store import BundleQuery
from tests.e2e.product import call

FEW: Final = 200
_MEASURED_S: Final = 0.7  # of each list, at least _LEAST requests
_LEAST: Final = 3


class _Page(NamedTuple):
    """A page: ms until it was there, ms of CPU of the service and of the database server, how many bundles it has."""

    ms: float
    cpu_ms: float
    bundles: int


def measure(directory: Path, url: str, count: int) -> None:
    """Prints a row for each filter."""
    with served(directory, url) as control:
        register(control)
        begun = time.perf_counter()
        few, web = asyncio.run(stored.fill(url, FEW, count))
        print(f"{count} bundles in {time.perf_counter() - begun:.0f} s")
        pages = _Pages(control, url, load_cursor_signer("", directory / "data" / "cursor.key"))
        columns = {"filter": "", "bundles": "", "first page: ms, CPU ms": ".1f", "beside one of few, CPU": ".1f"}
        table = Table({**columns, "middle: ms, CPU ms": ".1f"})
        for (name, query), small in zip(_filters(web).items(), _filters(few).values(), strict=True):
            of_few, first = pages.cost(few, small), pages.cost(web, query)
            middle, ratio = pages.cost(web, query, web.middle), first.cpu_ms / of_few.cpu_ms
            table.row(name, first.bundles, (first.ms, first.cpu_ms), ratio, (middle.ms, middle.cpu_ms))


def _filters(project: Project) -> dict[str, dict[str, str]]:
    """By what they are called. A fifth of the bundles each have the `large` ones; `none`: no bundle has both."""
    run, commit, trace = {"runId": project.run}, {"commit": project.commit}, {"traceId": project.trace}
    large_run, large_commit = {"runId": stored.LARGE}, {"commit": stored.LARGE_COMMIT}
    large_issue, large_trace = {"issue": project.issue}, {"traceId": stored.LARGE_TRACE}
    large_approval = {"approvalRequestId": stored.LARGE_APPROVAL}
    failed, unsigned = {"verdict": "FAILED"}, {"verified": "false"}
    return {
        "no filter": {},
        "issue": {"issue": project.small_issue},
        "issue, large": large_issue,
        "runId": run,
        "runId, large": large_run,
        "commit": commit,
        "commit, large": large_commit,
        "traceId": trace,
        "traceId, large": large_trace,
        "approvalRequestId, large": large_approval,
        "verdict PASSED": {"verdict": "PASSED"},
        "verdict VOID, the three oldest": {"verdict": "VOID"},
        "tier A": {"tier": "A"},
        "verified": {"verified": "true"},
        "unsigned": unsigned,
        "verdict and tier, none": failed | {"tier": "NONE"},
        "verified and verdict VOID, the three oldest": {"verified": "true", "verdict": "VOID"},
        "verdict and commit": failed | commit,
        "verdict and commit, large, none": failed | large_commit,
        "unsigned and runId, large, none": unsigned | large_run,
        "unsigned and issue, large, none": unsigned | large_issue,
        "verdict and issue, large, the oldest": {"verdict": "VOID"} | large_issue,
        "unsigned, verdict, tier and issue, large, none": unsigned | failed | {"tier": "NONE"} | large_issue,
        "runId and commit, both large, none": large_run | large_commit,
        "runId and issue, both large, none": large_run | large_issue,
        "commit and issue, both large, none": large_commit | large_issue,
        "verdict and traceId": failed | trace,
        "verdict and traceId, large, none": failed | large_trace,
        "unsigned and approvalRequestId, large, none": unsigned | large_approval,
        "runId and traceId, large, none": run | large_trace,
        "runId and traceId, both large, none": large_run | large_trace,
        "issue and traceId, both large, none": large_issue | large_trace,
    }


class _Pages:
    """Asks for pages. Cursors into the middle are signed with the key of the service."""

    def __init__(self, control: Served, url: str, signer: CursorSigner) -> None:
        self._control = control
        self._url = url
        self._signer = signer

    def cost(self, project: Project, query: dict[str, str], before: str | None = None) -> _Page:
        """The mean of some requests; of a list that is broken off `bundles` is the status, negative."""
        asked = urlencode(query | ({} if before is None else {"cursor": self._cursor(project, query, before)}))
        path = PATH.replace("/web/", f"/{project.slug}/")
        headers = {"Authorization": f"Bearer {self._control.tokens[0]}"}
        address, requests = f"http://127.0.0.1:{self._control.port}{path}?{asked}", 0
        found = call("GET", address, None, headers)
        spent, begun = self._cpu_s(), time.perf_counter()
        while requests < _LEAST or time.perf_counter() < begun + _MEASURED_S:
            found, requests = call("GET", address, None, headers), requests + 1
            if found.status not in (200, 503):
                raise SystemExit(str(found))
        taken, spent = time.perf_counter() - begun, self._cpu_s() - spent
        bundles = len(found.json()["data"]) if found.status == 200 else -found.status
        return _Page(taken / requests * 1e3, spent / requests * 1e3, bundles)

    def _cursor(self, project: Project, query: dict[str, str], before: str) -> str:
        return self._signer.sign((before,), repr(("proof bundles", project.id, _parsed(query))).encode())

    def _cpu_s(self) -> float:
        """Of the service and of the processes of the database server that work for it."""
        if not self._url.startswith("postgresql"):
            return self._control.cpu_s()
        with psycopg.connect(self._url) as connection:
            others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            pids = [int(row[0]) for row in connection.execute(others)]
        return self._control.cpu_s() + sum(map(cpu_s, pids))


def _parsed(query: dict[str, str]) -> BundleQuery:
    return read_query(BundleQuery, query, Issues())
