"""What is erased is in no file any more: not in tables, journals, quarantine, temporary files, nor in the database."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.product import Sluice, call, eventually, run, running
from tests.proto.otlp.sent import attributes, pair, request, span, string

COMPLETE_S = 240  # a minute for requests on their way, and what ClickHouse and the journal take
SEED = "seeded-8a4f3c"
KEPT = "kept-51c07e"


# Compressed, texts are in no file as they are.
UNCOMPRESSED = """
import clickhouse_connect, sys
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
for table in ("spans", "logs"):
    client.command(f"ALTER TABLE {table} MODIFY COLUMN attributes CODEC(NONE)")
"""


@pytest.fixture
def sluice(tmp_path: Path) -> Iterator[Sluice]:
    data = tmp_path / "data"
    run("migrate", "--data", str(data), environment={})
    subprocess.run([sys.executable, "-c", UNCOMPRESSED, str(data / "clickhouse")], check=True)
    deployment = running(data, tmp_path / "log", SLUICE_GATEWAY_JOURNAL_HOLD_S="1")
    yield deployment
    deployment.kill()


def control(sluice: Sluice, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    raw = None if body is None else json.dumps(body).encode()
    answer = call(method, f"{sluice.control_url}/orgs/{sluice.org}{path}", raw, headers)
    return answer.status, answer.json() if answer.body else {}


def export(sluice: Sluice, key: str, user: str, text: str, spans: int = 200) -> None:
    now = time.time_ns()
    of_user = pair("user.id", string(user))
    texts = (pair("text", string(f"{text}-{number}")) for number in range(spans))
    body = request(*(span(attributes(9, of_user, one), start=now, end=now) for one in texts))
    answer = sluice.export("traces", body, X_Legacy_Auth=f"Legacy legacy_key={key}")
    assert answer.status == 200


def count_spans(sluice: Sluice, project: str) -> int:
    path = f"/orgs/{sluice.org}/projects/{project}/explore/spans/aggregate"
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    answer = call("POST", f"{sluice.query_url}{path}", json.dumps({"fn": "count"}).encode(), headers)
    assert answer.status == 200, answer.body
    return int(answer.json()["groups"][0]["count"])


def files_with(data: Path, text: str) -> list[str]:
    """All files under the data directory that hold these bytes."""
    found = []
    for path in sorted(data.rglob("*")):
        try:
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(str(path.relative_to(data)))
        except FileNotFoundError:
            continue  # a part that was merged
    return found


def wait_until_complete(sluice: Sluice, erasure: object, kills: int) -> dict[str, object]:
    """Kill the process now and then; it is restarted and goes on."""
    path, done = f"/erasures/{erasure}", Counter[str]()

    def is_complete() -> dict[str, object] | None:
        if done["kills"] < kills and random.random() < 0.05:
            done["kills"] += 1
            sluice.kill()
            sluice.start()
        status, body = control(sluice, "GET", path)
        assert status == 200, body
        assert body["state"] != "FAILED", body
        return body if body["state"] == "COMPLETED" else None

    found = eventually(is_complete, "the erasure is complete", COMPLETE_S)
    assert done["kills"] == kills
    return found or {}


@pytest.mark.long
def test_what_is_erased_is_in_no_file_any_more(sluice: Sluice) -> None:
    assert control(sluice, "POST", "/projects", {"slug": "gone", "name": "Gone"})[0] == 201
    status, key = control(sluice, "POST", "/projects/gone/keys", {"name": "key"})
    assert status == 201
    for user in ("4711", "4712"):
        export(sluice, sluice.key, user, SEED if user == "4711" else KEPT)
    export(sluice, str(key["key"]), "4711", SEED)
    eventually(lambda: count_spans(sluice, sluice.project) == 400, "spans of the project that stays")
    eventually(lambda: count_spans(sluice, "gone") == 200, "spans of the other project")
    assert any(name.startswith("clickhouse/") for name in files_with(sluice.data, SEED))

    filters = [
        {"key": "user.id", "op": "eq", "value": "4711"},
        {"key": "text", "op": "starts_with", "value": SEED[:-1]},
    ]
    status, dry = control(sluice, "POST", f"/projects/{sluice.project}/erasures", {"filters": filters, "dryRun": True})
    assert status == 202
    status, by_filter = control(sluice, "POST", f"/projects/{sluice.project}/erasures", {"filters": filters})
    assert status == 202
    status, of_project = control(sluice, "DELETE", "/projects/gone")
    assert status == 202
    refused = sluice.export("traces", request(), X_Legacy_Auth=f"Legacy legacy_key={key['key']}")
    assert refused.status == 401

    assert wait_until_complete(sluice, by_filter["id"], kills=4)["rows"]["spans"] >= 200  # type: ignore[index]
    wait_until_complete(sluice, of_project["id"], kills=0)
    assert control(sluice, "GET", f"/erasures/{dry['id']}")[1]["rows"] == {"spans": 200}
    assert count_spans(sluice, sluice.project) == 200
    assert control(sluice, "GET", "/projects/gone")[0] == 404
    assert files_with(sluice.data, SEED) == []
    # Tombstones keep the values of filters, for restored backups; nothing else does.
    assert {name.split("-")[0] for name in files_with(sluice.data, SEED[:-1])} == {"sluice.db"}
    assert any(name.startswith("clickhouse/") for name in files_with(sluice.data, KEPT))
