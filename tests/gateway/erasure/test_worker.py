"""Erasures on real stores: what is covered is gone, from the files too, and nothing else is touched."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
import structlog

from chassis.auth.tables import projects
from chassis.clickhouse import ClickHouse, QueryLimits, StoreUnavailable
from chassis.db.database import Database
from chassis.erasures import leases, repository
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind, ErasureState
from gateway.erasure import worker as worker_module
from gateway.erasure.journals import MARGIN_NS, JournalErasure
from gateway.erasure.projects import DeletedProjects, ProjectRetention
from gateway.erasure.telemetry import ALL_TABLES, DerivedRows, TelemetryErasure
from gateway.erasure.worker import ErasureWorker
from gateway.inserts.blocks import InsertBlock, build_insert_blocks
from gateway.inserts.pending_requests import PendingRequest
from gateway.journal import format as fmt
from gateway.journal.storage.quarantine import QUARANTINE_DIRECTORY
from gateway.journal.storage.segments import SEGMENT_SUFFIX
from proto.otlp.codec import decode
from proto.otlp.policy import DecodedPayload, Policy
from proto.otlp.protobuf_writer import bytes_field, varint_field
from proto.storage.tables import TABLES
from sluice.erasure_filters import compile_filters
from tests.chassis.auth.tenants import Tenant, new_tenant
from tests.proto.otlp.sent import attributes, integer, log, pair, request, span, string

NOW_NS = time.time_ns()
DAY_NS = 86_400 * 10**9
COLUMNS = {table.name: table.column_names for table in TABLES}
SECRET = "seeded-4711"
EVENT = bytes_field(11, bytes_field(2, b"exception") + attributes(3, pair("exception.message", string(SECRET))))


Filters = list[dict[str, str]]


def of_user(user: str) -> Filters:
    return [{"key": "user.id", "op": "eq", "value": user}]


OF_A = of_user("a")


class Erasing:
    """A worker over the stores, and what tests do with it."""

    def __init__(self, store: ClickHouse, database: Database, tenant: Tenant, journals: Path) -> None:
        self.store, self.database, self.tenant, self.journals, self.ns = store, database, tenant, journals, NOW_NS
        self.project_id = tenant.project.id
        self.telemetry = TelemetryErasure(store)
        self.worker = self.another()

    def restart(self) -> None:
        """The process is gone, and its lease is over."""
        self.worker = self.another()
        self.pass_time(61)

    def another(self) -> ErasureWorker:
        """Of another process."""
        self.deleted_projects = DeletedProjects(self.journals)
        return ErasureWorker(
            self.database,
            self.telemetry,
            DerivedRows(self.store, self.telemetry, 0, self._no_sleep),
            JournalErasure(self.journals, self.database, self.clock, lambda: self.ns / 10**9),
            self.deleted_projects,
            compile_filters,
            structlog.get_logger(),
            self.clock,
        )

    def clock(self) -> int:
        return self.ns

    def pass_time(self, seconds: float) -> None:
        self.ns += int(seconds * 10**9)

    async def keep_days(self) -> None:
        """What the retention of projects deletes is gone."""
        log = structlog.get_logger()
        await ProjectRetention(self.database, self.telemetry, self.deleted_projects, log, self.clock).run()
        while await self.telemetry.unfinished_mutations(ALL_TABLES):
            await asyncio.sleep(0.05)

    async def _no_sleep(self, _seconds: float) -> None:
        await asyncio.sleep(0.01)

    async def request(self, kind: ErasureKind, **more: Any) -> StoredErasure:
        async with self.database.write() as connection:
            own: dict[str, Any] = {"org_id": self.tenant.organization.id, "project_id": self.project_id}
            new = NewErasure(kind=kind, **own, **{"purged": True, **more})
            return await repository.create(connection, new, self.now())

    async def state(self, erasure: StoredErasure) -> StoredErasure:
        async with self.database.read() as connection:
            return await repository.get(connection, erasure.id)

    def now(self) -> datetime:
        """Of the worker."""
        return datetime.fromtimestamp(self.ns / 10**9, UTC)

    async def poll_until(self, erasure: StoredErasure, until: Callable[[StoredErasure], bool]) -> StoredErasure:
        """Poll as time passes. Parts that are replaced are removed by ClickHouse in its own time."""
        for _ in range(200):
            await self.worker.poll()
            found = await self.state(erasure)
            if until(found):
                return found
            self.pass_time(worker_module.RETRY_S)
            await asyncio.sleep(0.05)
        raise AssertionError(f"not reached: {await self.state(erasure)}")

    async def insert(self, batch_id: int, *requests: DecodedPayload) -> None:
        for insert_block in blocks(batch_id, *requests):
            block = insert_block.block
            await self.store.insert(block.table, COLUMNS[block.table], block.pieces, token=insert_block.token)

    async def contents(self, where: str = "1") -> Mapping[str, list[tuple[Any, ...]]]:
        """What readers find."""
        return {
            table.name: await self.read(
                f"SELECT * EXCEPT(batch_id) FROM {table.name} WHERE {where} ORDER BY ALL"
                if "batch_id" in table.column_names
                else f"SELECT * FROM {table.name} FINAL WHERE {where} ORDER BY ALL"
            )
            for table in TABLES
        }

    async def read(self, sql: str) -> list[tuple[Any, ...]]:
        return await self.store.query(sql, {}, limits=QueryLimits())


def blocks(batch_id: int, *requests: DecodedPayload) -> Sequence[InsertBlock]:
    pending = [PendingRequest(1, decoded, decoded.accepted, 100, NOW_NS) for decoded in requests]
    return build_insert_blocks(pending, batch_id, NOW_NS // 10**6)


def is_completed(erasure: StoredErasure) -> bool:
    return erasure.state is ErasureState.COMPLETED


@pytest.fixture
async def erasing(tmp_path: Path, database: Database, unexpiring: ClickHouse) -> Erasing:
    for table in TABLES:  # older releases keep replaced parts for eight minutes
        await unexpiring.command(f"ALTER TABLE {table.name} MODIFY SETTING old_parts_lifetime = 0")
    return Erasing(unexpiring, database, await new_tenant(database, "acme"), tmp_path / "journal")


def sent(project_id: int, user: str, *, at: int = NOW_NS, secret: str = SECRET) -> list[DecodedPayload]:
    """A span with an exception, and an error log, of a user."""
    of_user = pair("user.id", string(user))
    error = attributes(6, of_user, pair("exception.type", string("E")), pair("exception.message", string(secret)))
    own = attributes(9, of_user, pair(f"key.{secret}", integer(1)))
    return [
        decode("traces", request(span(own, EVENT, start=at, end=at)), project_id, Policy(), at),
        decode("logs", request(log(varint_field(2, 17), error, time=at)), project_id, Policy(), at),
    ]


async def test_a_deleted_project_leaves_nothing(erasing: Erasing) -> None:
    other = erasing.project_id + 1
    await erasing.insert(1, *sent(erasing.project_id, "a"), *sent(other, "b"))
    await erasing.insert(2, *sent(erasing.project_id, "c", at=NOW_NS - DAY_NS))
    of_others = await erasing.contents(f"project_id = {other}")
    erasure = await erasing.request(ErasureKind.PROJECT)
    done = await erasing.poll_until(erasure, is_completed)
    assert done.counts == {
        "spans": 2, "logs": 2, "error_occurrences": 4, "ingest_outcomes": 4, "trace_index": 2, "attribute_keys": 4
    }  # fmt: skip
    assert await erasing.contents() == of_others
    assert erasing.project_id in erasing.deleted_projects
    assert erasing.project_id in DeletedProjects(erasing.journals)  # known without the database
    assert done.erased_at is not None
    assert done.erased_at >= done.requested_at + timedelta(seconds=60)


async def test_what_is_stored_again_is_deleted_again(erasing: Erasing) -> None:
    """A replay, or a gateway that did not know."""
    await erasing.insert(1, *sent(erasing.project_id, "a"))
    erasure = await erasing.request(ErasureKind.PROJECT)
    await erasing.poll_until(erasure, lambda found: (found.message or "") == worker_module.RECENT)
    await erasing.insert(2, *sent(erasing.project_id, "a"))
    done = await erasing.poll_until(erasure, is_completed)
    assert done.counts["spans"] == 2
    assert not any((await erasing.contents()).values())


async def test_a_restart_continues(erasing: Erasing, monkeypatch: pytest.MonkeyPatch) -> None:
    await erasing.insert(1, *sent(erasing.project_id, "a"))
    erasure = await erasing.request(ErasureKind.PROJECT)
    delete = erasing.telemetry.delete

    async def killed(*arguments: Any) -> None:
        await delete(*arguments)
        raise SystemExit

    monkeypatch.setattr(erasing.telemetry, "delete", killed)
    with pytest.raises(SystemExit):
        await erasing.worker.poll()
    monkeypatch.undo()
    assert (await erasing.state(erasure)).state is ErasureState.RUNNING
    erasing.restart()
    await erasing.poll_until(erasure, is_completed)
    assert not any((await erasing.contents()).values())


ROWS = {
    ErasureKind.PROJECT: {
        "spans": 1, "logs": 1, "error_occurrences": 2, "ingest_outcomes": 2, "trace_index": 1, "attribute_keys": 2
    },
    ErasureKind.FILTER: {"spans": 1, "logs": 1, "error_occurrences": 2},
}  # fmt: skip


# Every other one for `make test`.
ENDS = [
    pytest.param(kind, deletions, begun, marks=[pytest.mark.long] * ((number + begun) % 2))
    for kind, numbers in ((ErasureKind.PROJECT, (0, 2, 5)), (ErasureKind.FILTER, (0, 2)))
    for number, deletions in enumerate(numbers)
    for begun in (True, False)
]


@pytest.mark.parametrize(("kind", "deletions", "begun"), ENDS)
async def test_rows_are_counted_once_whenever_the_process_ends(
    erasing: Erasing, monkeypatch: pytest.MonkeyPatch, kind: ErasureKind, deletions: int, begun: bool
) -> None:
    """It ends when it deletes from one more table than so many, before or after ClickHouse has begun to."""
    await erasing.insert(1, *sent(erasing.project_id, "a"))
    filters = OF_A if kind is ErasureKind.FILTER else None
    erasure = await erasing.request(kind, filters=filters)
    command, left = erasing.store.command, deletions

    async def ending(sql: str, *arguments: Any) -> None:
        nonlocal left
        if " DELETE WHERE " in sql and sql.startswith("ALTER"):
            left -= 1
            if left < 0:
                if begun:
                    await command(sql, *arguments)
                raise SystemExit
        await command(sql, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(erasing.store, "command", ending)
        with pytest.raises(SystemExit):
            await erasing.poll_until(erasure, is_completed)
    erasing.restart()
    done = await erasing.poll_until(erasure, is_completed)
    assert (done.counts, done.pending_deletion) == (ROWS[kind], None)


async def test_rows_are_counted_once_though_clickhouse_has_forgotten_their_deletion(
    erasing: Erasing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps a hundred statements, and erasures remove finished ones."""
    await erasing.insert(1, *sent(erasing.project_id, "a"))
    erasure = await erasing.request(ErasureKind.PROJECT)
    monkeypatch.setattr(erasing.telemetry, "tables_of_deletion", AsyncMock(return_value=[]))
    done = await erasing.poll_until(erasure, is_completed)
    assert done.counts == ROWS[ErasureKind.PROJECT]


async def test_items_by_filter(erasing: Erasing) -> None:
    """Spans, logs and error occurrences of one user; indexes are computed again from what is left."""
    of_another = sent(erasing.project_id, "b", at=NOW_NS - 1, secret="stays")
    await erasing.insert(1, *sent(erasing.project_id, "a"), *of_another)
    await erasing.insert(2, *sent(erasing.project_id + 1, "a"))
    of_others = await erasing.contents(f"project_id = {erasing.project_id + 1}")
    erasing.pass_time(1)
    dry = await erasing.request(ErasureKind.FILTER, filters=OF_A, dry_run=True)
    counted = await erasing.poll_until(dry, is_completed)
    assert counted.counts == {"error_occurrences": 2, "spans": 1, "logs": 1}
    assert len(await erasing.read("SELECT 1 FROM spans")) == 3
    erasure = await erasing.request(ErasureKind.FILTER, filters=OF_A)
    done = await erasing.poll_until(erasure, is_completed)
    assert done.counts == counted.counts
    assert await erasing.contents(f"project_id = {erasing.project_id + 1}") == of_others
    left = await erasing.contents(f"project_id = {erasing.project_id}")
    assert [len(left[table]) for table in ("spans", "logs", "error_occurrences", "trace_index")] == [1, 1, 2, 1]
    keys = await erasing.read(f"SELECT DISTINCT key FROM attribute_keys WHERE project_id = {erasing.project_id}")
    assert {key for (key,) in keys} >= {"user.id", "key.stays"}
    assert (f"key.{SECRET}",) not in keys


async def test_a_time_range_without_filters(erasing: Erasing) -> None:
    for days in range(3):
        await erasing.insert(days, *sent(erasing.project_id, "a", at=NOW_NS - days * DAY_NS))
    erasure = await erasing.request(
        ErasureKind.FILTER, from_ns=NOW_NS - DAY_NS, to_ns=NOW_NS
    )  # half-open: the second of three
    done = await erasing.poll_until(erasure, is_completed)
    assert done.counts["spans"] == 1
    times = await erasing.read("SELECT toUnixTimestamp64Nano(start_time) FROM spans ORDER BY 1")
    assert [at for (at,) in times] == [NOW_NS - 2 * DAY_NS, NOW_NS]


async def test_a_journal_with_older_segments_is_waited_for(erasing: Erasing) -> None:
    journal = erasing.journals / "0"
    journal.mkdir(parents=True)
    segment = journal / f"{1:020d}{SEGMENT_SUFFIX}"
    segment.write_bytes(fmt.pack_file_header(fmt.FileHeader(fmt.SEGMENT, 1, NOW_NS, b"s" * 8)))
    await erasing.worker.poll()  # registers it
    erasure = await erasing.request(ErasureKind.PROJECT)
    waiting = await erasing.poll_until(erasure, lambda found: "older than the erasure" in (found.message or ""))
    began = erasing.now()
    erasing.pass_time(3_600)
    await erasing.worker.poll()
    late = await erasing.state(waiting)
    assert late.state is ErasureState.RUNNING
    retries = [one.retry_at for one in (waiting, late) if one.retry_at is not None]
    pauses = [round((retry - at).total_seconds()) for retry, at in zip(retries, (began, erasing.now()), strict=True)]
    assert pauses == [worker_module.RETRY_S, worker_module.MAX_RETRY_S], "the longer it waits, the less often it counts"
    later = fmt.FileHeader(fmt.SEGMENT, 1, NOW_NS + 2 * MARGIN_NS, b"s" * 8)
    segment.write_bytes(fmt.pack_file_header(later))
    await erasing.poll_until(erasure, is_completed)


@pytest.mark.parametrize("kind", [ErasureKind.PROJECT, ErasureKind.FILTER])
async def test_quarantined_requests_and_damaged_bytes_are_removed(erasing: Erasing, kind: ErasureKind) -> None:
    def quarantined(name: str, project_id: int, received: str) -> Sequence[Path]:
        directory = erasing.journals / QUARANTINE_DIRECTORY
        directory.mkdir(parents=True, exist_ok=True)
        note = (
            f'{{"reason": "", "set_aside": "", "received": "{received}", "project_id": {project_id}, "signal": "logs",'
            ' "items": 1, "bytes": 1, "journal": "0", "sequence": 1, "batch": 1, "skip": []}'
        )
        files = [directory / f"{name}{SEGMENT_SUFFIX}", directory / f"{name}{SEGMENT_SUFFIX}.json"]
        files[0].write_bytes(b"x")
        files[1].write_text(note)
        return files

    before, after = "2026-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"
    ours = quarantined("1-1-1", erasing.project_id, before)
    others = quarantined("1-1-2", erasing.project_id + 1, before)
    later = quarantined("1-1-3", erasing.project_id, after)
    damaged = erasing.journals / "damaged"
    damaged.mkdir()
    (damaged / f"{NOW_NS // 10**6 - 5}-0-1.bytes").write_bytes(b"x")
    (damaged / f"{NOW_NS // 10**6 + 10**6}-0-1.bytes").write_bytes(b"x")
    (erasing.journals / "0").mkdir()
    await erasing.worker.poll()
    filters = OF_A if kind is ErasureKind.FILTER else None
    await erasing.request(kind, filters=filters)
    await erasing.worker.poll()
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in others)
    assert all(path.exists() for path in later) == (kind is ErasureKind.FILTER)
    assert len(list(damaged.iterdir())) == 1


async def test_an_unavailable_store_is_tried_again(erasing: Erasing, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(_condition: object) -> dict[str, int]:
        raise StoreUnavailable("away")

    erasure = await erasing.request(ErasureKind.PROJECT)
    monkeypatch.setattr(erasing.telemetry, "count", unavailable)
    await erasing.worker.poll()
    found = await erasing.state(erasure)
    assert found.state is ErasureState.RUNNING
    assert (found.message or "").startswith("ClickHouse has failed without an error code")
    monkeypatch.undo()
    await erasing.poll_until(erasure, is_completed)


async def test_tables_without_rows_of_their_own_are_refused(erasing: Erasing) -> None:
    await erasing.store.command("RENAME TABLE logs TO logs_local")
    await erasing.store.command("CREATE VIEW logs AS SELECT * FROM logs_local")
    erasure = await erasing.request(ErasureKind.PROJECT)
    failed = await erasing.poll_until(erasure, lambda found: found.state is ErasureState.FAILED)
    assert "logs (View)" in (failed.message or "")


async def test_a_project_may_keep_its_rows_for_fewer_days(erasing: Erasing) -> None:
    for days in range(4):
        at = NOW_NS - days * DAY_NS
        await erasing.insert(days, *sent(erasing.project_id, "a", at=at), *sent(erasing.project_id + 1, "b", at=at))
    await erasing.keep_days()
    assert len(await erasing.read("SELECT 1 FROM spans")) == 8
    async with erasing.database.write() as connection:
        await connection.execute(projects.update().where(projects.c.id == erasing.project_id).values(retention_days=2))
    await erasing.keep_days()
    for table in ("spans", "logs", "error_occurrences", "trace_index"):
        left = await erasing.read(
            f"SELECT project_id = {erasing.project_id}, count() FROM {table} GROUP BY 1 ORDER BY 1"
        )
        assert [count for _, count in left] == ([8, 6] if table == "error_occurrences" else [4, 3])
    await erasing.keep_days()


async def test_items_that_arrive_meanwhile_hold_up_their_own_day_only(erasing: Erasing) -> None:
    """A busy project: the trace index of the current day always lags behind its items."""
    old = NOW_NS - 9 * DAY_NS
    await erasing.insert(1, *sent(erasing.project_id, "a", at=old))
    await erasing.insert(2, *sent(erasing.project_id, "b"))
    await erasing.store.command("TRUNCATE TABLE trace_index")
    erasure = await erasing.request(ErasureKind.FILTER, filters=OF_A)
    await erasing.poll_until(erasure, is_completed)


async def test_occurrences_that_are_stored_after_their_items_were_erased_are_erased(erasing: Erasing) -> None:
    await erasing.insert(1, *sent(erasing.project_id, "a"), *sent(erasing.project_id, "b", at=NOW_NS - 1))
    late = [block for block in blocks(1, *sent(erasing.project_id, "a")) if block.block.table == "error_occurrences"]
    erasure = await erasing.request(ErasureKind.FILTER, filters=OF_A)
    await erasing.poll_until(
        erasure, lambda found: found.pending_deletion is not None and found.pending_deletion["rows"] == {"logs": 1}
    )
    await erasing.store.insert("error_occurrences", COLUMNS["error_occurrences"], late[0].block.pieces, token="late")
    done = await erasing.poll_until(erasure, is_completed)
    assert done.counts["error_occurrences"] == 4
    assert len(await erasing.read("SELECT 1 FROM error_occurrences")) == 2


async def test_erasures_of_one_project_take_turns(erasing: Erasing) -> None:
    await erasing.insert(1, *sent(erasing.project_id, "a"), *sent(erasing.project_id, "b", at=NOW_NS - 1))
    both = [await erasing.request(ErasureKind.FILTER, filters=of_user(user)) for user in "ax"]
    erasing.pass_time(61)
    async with erasing.database.write() as connection:
        assert await leases.claim(connection, "one", erasing.now()) is not None
        assert await leases.claim(connection, "two", erasing.now()) is None
    for erasure in both:
        await erasing.poll_until(erasure, is_completed)
    assert [items for (items,) in await erasing.read("SELECT sum(items) FROM trace_index")] == [1]


async def test_no_message_and_no_statement_keeps_the_values_of_filters(erasing: Erasing) -> None:
    await erasing.insert(1, *sent(erasing.project_id, "a-secret-address"))
    messages = []

    def noted(found: StoredErasure) -> bool:
        messages.append(found.message or "")
        return is_completed(found)

    await erasing.poll_until(await erasing.request(ErasureKind.FILTER, filters=of_user("a-secret-address")), noted)
    assert len(set(messages)) > 2
    assert "secret" not in "".join(messages)
    commands = await erasing.read("SELECT command FROM system.mutations WHERE database = currentDatabase()")
    assert "secret" not in str(commands)


async def test_what_is_stored_of_a_deleted_project_later_is_deleted(erasing: Erasing) -> None:
    """By a gateway that was cut off from the database."""
    await erasing.poll_until(await erasing.request(ErasureKind.PROJECT), is_completed)
    await erasing.insert(1, *sent(erasing.project_id, "a"), *sent(erasing.project_id + 1, "a"))
    others = await erasing.contents(f"project_id = {erasing.project_id + 1}")
    await erasing.keep_days()
    assert await erasing.contents() == others


async def test_tables_that_a_killed_repair_left_are_waited_for(erasing: Erasing) -> None:
    await erasing.store.command("CREATE TABLE repair_error_occurrences_0 AS error_occurrences")
    erasing.pass_time(3_600)
    erasure = await erasing.request(ErasureKind.PROJECT)
    await erasing.poll_until(erasure, lambda found: "repair_error_occurrences_0" in (found.message or ""))
    await erasing.store.command("DROP TABLE repair_error_occurrences_0")
    await erasing.poll_until(erasure, is_completed)
