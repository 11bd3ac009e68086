"""Fault 29: what one project may legally send and an engine can hardly hold, in 2 GiB of memory. Needs root.

The process lives, nothing of others is lost, and they are served throughout.
"""

import time
from pathlib import Path
from typing import Final

import clickhouse_connect
import pytest

from chassis.clickhouse import migrations
from chassis.clickhouse.client import INSERT_SETTINGS
from proto.otlp.codec import build_blocks, decode
from proto.otlp.policy import Policy
from proto.storage.tables import SPANS
from tests.e2e.product import Sluice, call, eventually
from tests.engine.alone import in_a_process
from tests.faults.deployment import metric
from tests.faults.loading import accounted_for, more, sending_to
from tests.faults.memory_group import MemoryGroup, running
from tests.faults.worst import WORST, Traces, attributes

TRIES: Final = 20
FEW: Final = 1_000  # items: of the load, which goes on
MERGED_S: Final = 120.0  # for a merge on a busy machine
SETTINGS: Final = {"SLUICE_GATEWAY_JOURNAL_HOLD_S": "1"}


def another_project(sluice: Sluice) -> tuple[str, str]:
    """Its path below the organization, and a key."""
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    base = f"{sluice.control_url}/orgs/{sluice.org}/projects"
    assert call("POST", base, b'{"slug":"other","name":"Other"}', headers).status == 201
    made = call("POST", f"{base}/other/keys", b'{"name":"key"}', headers)
    assert made.status == 201, made.body
    return f"/orgs/{sluice.org}/projects/other/explore", made.json()["key"]


def send(sluice: Sluice, key: str, signal: str, body: bytes) -> int:
    """The final answer to an exporter that does as it is told."""
    headers = {
        "X-Legacy-Auth": f"Legacy legacy_key={key}",
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
    }
    status = 0
    for _ in range(TRIES):
        status = call("POST", f"{sluice.gateway_url}/v1/{signal}", body, headers).status
        if status != 503:
            break
        time.sleep(1)
    return status


def look_at_it(sluice: Sluice, path: str) -> None:
    """Reads of what was sent, each of which is answered, or refused for what it takes."""
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    for suffix, body in (
        ("/spans?limit=200", None),
        ("/spans?filters=resource.r0:x", None),
        ("/logs?limit=200", None),
        ("/attributes", None),
        ("/errors", None),
        ("/spans/aggregate", b'{"fn":"count","groupBy":"resource.r1"}'),
        ("/spans/aggregate", b'{"fn":"count_unique","field":"resource.service.name"}'),
    ):
        status = call("GET" if body is None else "POST", sluice.query_url + path + suffix, body, headers).status
        assert status in (200, 400, 503), (suffix, status)
        assert sluice.explore("/spans?limit=5") is not None  # the others' reads go on


@pytest.mark.long
def test_fault_29_worst_legal_input_in_two_gibibytes(on_disk: Path, group: MemoryGroup, run: str) -> None:
    sluice = running(on_disk, group, SETTINGS)
    try:
        path, key = another_project(sluice)
        with sending_to(sluice, run, rate=5.0) as load:
            for name, (make, signal, times) in WORST.items():
                for number in range(times):
                    assert send(sluice, key, signal, make(number)) == 200, name
                more(load, 5, 60)
            eventually(lambda: metric(sluice.gateway_url, "sluice_gateway_pending_items") < FEW, "it is stored", 120)
            look_at_it(sluice, path)
            more(load, 5, 60)
        assert group.killed == 0
        records = accounted_for(sluice, load, 120)
    finally:
        sluice.kill()
    assert records.faults == {}, records


def as_the_release_before_left_it(directory: str) -> None:
    """Tables of its version, and parts that it could not merge: 5 000 spans each that share 4 MiB."""
    client = clickhouse_connect.get_client(interface="chdb", path=directory)
    first, *_ = migrations.migrations()
    for statement in first.statements:
        client.command(migrations.render(statement, embedded=True, retention_days=30))
    client.command(
        "CREATE TABLE sluice_schema (version UInt32, name String, applied_at DateTime('UTC') DEFAULT now('UTC'))"
        " ENGINE = MergeTree ORDER BY version"
    )
    client.command(f"INSERT INTO sluice_schema (version, name) VALUES (1, '{first.name}')")
    client.command("SYSTEM STOP MERGES")
    for number in range(8):
        request = Traces()
        request.spans(5_000, attributes(128, "r"), attributes(128, "s"))
        decoded = decode("traces", request.message.SerializeToString(), 1, Policy(), time.time_ns())
        block = next(block for block in build_blocks([decoded], number + 1) if block.table == SPANS.name)
        client.raw_insert(
            SPANS.name,
            column_names=list(SPANS.column_names),
            insert_block=b"".join(block.pieces),
            settings={**INSERT_SETTINGS, "insert_deduplication_token": str(number)},
            fmt="Native",
        )
    client.close()


@pytest.mark.long
def test_fault_29_a_start_on_what_killed_the_release_before(on_disk: Path, group: MemoryGroup, run: str) -> None:
    directory = on_disk / "data" / "clickhouse"
    directory.parent.mkdir()
    in_a_process(as_the_release_before_left_it, str(directory))
    sluice = running(on_disk, group, SETTINGS)
    try:
        with sending_to(sluice, run, clients=1, rate=5.0) as load:
            eventually(lambda: merged(directory), "a merge", MERGED_S)
            more(load, 5, 60)
            assert group.killed == 0
    finally:
        sluice.kill()


def merged(directory: Path) -> bool:
    """Whether there is a part that was merged: its level, the last number of its name, is not 0."""
    parts = (part.name for part in (directory / "store").glob("*/*/20*_*_*_*"))
    return any(not part.endswith("_0") for part in parts)
