"""SIGKILL of `sluice control` between any two steps of a webhook: its effects and answer are those of an undisturbed
run, once it was sent again as platforms do.
"""

import asyncio
import hashlib
import hmac
import http.client
import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from chassis.auth.tables import projects
from chassis.changes import change_events
from chassis.db.database import Database
from chassis.issues import issues
from control.inbound.integrations.tables import inbound_deliveries
from control.issues.releases.tables import commits, proposals
from control.issues.tables import ActivityKind, issue_activity
from tests.e2e.product import call
from tests.faults.office import Office
from tests.faults.zygote import Zygote
from tests.selection import scaled

URL = "https://github.com/shop/checkout"
REPOSITORY = {"id": 1, "full_name": "shop/checkout", "default_branch": "main", "html_url": URL}


async def add_issues(database_url: str, count: int) -> None:
    """Issues of the project, unresolved."""
    database = Database(database_url)
    await database.start()
    now = datetime.now(UTC)
    async with database.write() as connection:
        project = (await connection.execute(sa.select(projects).limit(1))).mappings().one()
        rows = [
            {
                "id": f"iss_{number:026}",
                "org_id": project["org_id"],
                "project_id": project["id"],
                "number": number,
                "fingerprint": number.to_bytes(16, "big"),
                "title": "Declined",
                "search_text": "declined",
                "status": "unresolved",
                "count": 1,
                **dict.fromkeys(("first_seen", "last_seen", "created_at", "updated_at"), now),
            }
            for number in range(1, count + 1)
        ]
        await connection.execute(issues.insert(), rows)
    await database.close()


def deliveries_of(number: int) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Deliveries about the issue of this number, in order: event, payload, and the answer of an undisturbed run."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sha = f"{number:040x}"
    commit = {"id": sha, "message": "Retry the charge", "timestamp": at, "distinct": True, "author": {"name": "Ada"}}
    commit |= {"added": [], "removed": [], "modified": ["src/charge.py"], "url": f"https://github.com/x/commit/{sha}"}
    push = {"ref": "refs/heads/main", "before": "0" * 40, "after": sha, "commits": [commit], "repository": REPOSITORY}

    def pull(one: int, merged: bool) -> dict[str, Any]:
        request = {"number": one, "title": "Retry", "body": f"Fixes WEB-{number}", "merged": merged, "updated_at": at}
        request |= {"state": "closed" if merged else "open", "merge_commit_sha": sha if merged else None}
        request |= {"html_url": f"https://github.com/shop/checkout/pull/{one}", "user": {"login": "ada"}}
        request |= {"head": {"ref": "retry", "sha": sha}}
        action = "closed" if merged else "opened"
        return {"action": action, "number": one, "pull_request": request, "repository": REPOSITORY}

    status = {"id": number, "state": "success", "environment": "production", "created_at": at, "updated_at": at}
    deployment = {"id": number, "sha": sha, "ref": "main", "environment": "production", "task": "deploy"}
    deployment |= {"created_at": at, "updated_at": at}
    deployed = {"action": "created", "deployment_status": status, "deployment": deployment, "repository": REPOSITORY}
    first, second = f"shop/checkout#{2 * number}", f"shop/checkout#{2 * number + 1}"
    return [
        ("push", push, {"commitsUpserted": 1}),
        ("pull_request", pull(2 * number, False), {}),
        ("pull_request", pull(2 * number + 1, False), {}),
        ("pull_request", pull(2 * number, True), {"proposalsMerged": [first], "proposalsSuperseded": [second]}),
        ("deployment_status", deployed, {"changeEventsCreated": 1}),
    ]


class Platform:
    """GitHub, but it sends again until it is answered."""

    def __init__(self, office: Office) -> None:
        self._office = office
        config = {"kind": "github", "name": "x", "secret": "0123456789abcdef"}
        status, made = office.call("POST", "/integrations", config, as_approver=True)
        assert status == 201, made
        url = urlsplit(made["url"])
        self._path, self._secret = f"{url.path}?{url.query}", made["secret"].encode()

    def deliver(self, event: str, payload: dict[str, Any]) -> Any:
        body = json.dumps(payload).encode()
        signature = hmac.new(self._secret, body, hashlib.sha256).hexdigest()
        headers = {"X-GitHub-Event": event, "X-Hub-Signature-256": f"sha256={signature}"}
        headers["Content-Type"] = "application/json"

        def send() -> tuple[int, Any]:
            try:
                answer = call("POST", self._office.url + self._path, body, headers)
                return answer.status, answer.json()
            except (http.client.HTTPException, ValueError) as error:  # cut off
                raise ConnectionResetError from error

        status, said = self._office.insisted(send)
        assert status == 200, said
        return said


@pytest.mark.sized
def test_a_webhook_takes_effect_once_though_the_process_is_killed(database_url: str, tmp_path: Path) -> None:
    rounds, chance = scaled(4, 60), random.Random(19)
    with Zygote() as zygote:
        office = Office(tmp_path / "office", database_url, zygote)
        try:
            asyncio.run(add_issues(database_url, rounds))
            office.start()
            platform = Platform(office)
            office.kill()
            for number in range(1, rounds + 1):
                office.begin_to_die(chance, 30)
                for event, payload, expected in deliveries_of(number):
                    answer = platform.deliver(event, payload)
                    assert {name: answer[name] for name in expected} == expected, (number, event, answer)
                    assert platform.deliver(event, payload) == answer  # doubled
                office.kill()
            office.start()
            check(office, rounds)
            office.stop()
        finally:
            office.close()
    assert office.kills


def check(office: Office, rounds: int) -> None:
    """What an undisturbed run leaves."""

    def count(table: sa.Table) -> int:
        return int(office.rows(sa.select(sa.func.count()).select_from(table))[0][0])

    once, twice = (count(commits), count(change_events)), count(proposals)
    assert (once, twice, count(inbound_deliveries)) == ((rounds, rounds), 2 * rounds, 5 * rounds)
    resolved = sa.select(issue_activity.c.issue_id).where(issue_activity.c.kind == ActivityKind.RESOLVED.value)
    assert len(office.rows(resolved)) == rounds
    assert {row.status for row in office.rows(sa.select(issues.c.status))} == {"resolved"}
