"""`sluice journal` over journals as a gateway leaves them, damaged ones too."""

import json
import shutil
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import structlog
from crc32c import crc32c
from prometheus_client import CollectorRegistry

from gateway.journal import Batch, Journal, JournaledRequest, JournalLimits, JournalMetrics, inspection
from gateway.journal.format import VERSION
from gateway.journal.storage.files import Files
from proto.otlp.policy import Policy
from sluice.main import main
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import ROOT
from tests.gateway.journal.three_segments import kill, path, three_segments, write

from .conftest import sluice

BODY: Final = b"a body that nobody is to see" * 40
KEY: Final = "hunter2hunter2"
BROKEN: Final = f"no column\nfor https://u:{KEY}@host"
LIMITS: Final = JournalLimits(min_free_bytes=0)


def journal(directory: Path) -> Journal:
    return Journal(directory, LIMITS, JournalMetrics(CollectorRegistry()), structlog.get_logger("test"))


def request(project_id: int) -> JournaledRequest:
    return JournaledRequest(project_id, "traces", "protobuf", "gzip", 1_795_000_000 * 10**9, 5, Policy(), BODY)


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[Path]:
    """A data directory: journal 0 with four requests, one batch of them open, two set aside; 1, which a process has."""
    directory = tmp_path / "data" / "journal"
    first = journal(directory)
    first.open()
    for project_id in (1, 2, 3, 4, 5, 6):
        await first.append(request(project_id))
    await first.begin(Batch(11, 1_795_000_000_000, ((1, 2),)))
    for batch_id, sequence, reason in ((12, 3, BROKEN), (13, 4, "x" * 300)):
        batch = Batch(batch_id, 1_795_000_000_000, ((sequence, sequence),))
        await first.begin(batch)
        await first.quarantine(batch, reason)
    second = journal(directory)
    second.open()
    await second.append(request(7))
    await first.close()
    yield tmp_path / "data"
    await second.close()


class Done(NamedTuple):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(data: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `sluice journal` on the data directory, in this process: a process takes a second to start."""

    def run(*arguments: str, directory: Path = data) -> Done:
        code = main(["journal", "--data", str(directory), *arguments])
        done = Done(code, *capsys.readouterr())
        assert "nobody is to see" not in done.out + done.err
        return done

    return run


def shown(done: Done) -> str:
    assert (done.code, done.err) == (0, "")
    return done.out


def inspected(command: Command) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(command("inspect", "--json")))
    return found


def test_inspect_shows_journals_batches_and_quarantine(command: Command) -> None:
    text = shown(command("inspect"))
    lines = [line.split() for line in text.splitlines()]
    (closed,) = [line for line in lines if line[:2] == ["0", "closed"]]
    assert closed[2:7] == [str(VERSION), "1", "1", "to", "6"]
    assert closed[9:11] == ["4", "1"]  # not stored, open batches
    (used,) = [line for line in lines if line[:3] == ["1", "in", "use"]]
    assert used[3:8] == [str(VERSION), "1", "1", "to", "..."]
    assert ["0", "11", "2026-11-18T11:06:40Z", "2", "0"] in lines
    assert KEY not in text
    assert f"{'x' * 80}...\n" in text
    assert "Damaged" not in text


def test_inspect_json_has_everything(command: Command, data: Path) -> None:
    found = inspected(command)
    assert found["directory"] == str(data / "journal")
    closed, used = found["journals"]
    assert (closed["taken"], closed["clean"], used["taken"]) == (False, True, True)
    assert [(batch["batch"], batch["requests"]) for batch in closed["batches"]] == [(11, 2)]
    (segment,) = closed["segments"]
    assert (segment["requests"], segment["items"], segment["unfinished"]) == (6, 30, 4)
    notes = [one["note"] for one in found["quarantine"]]
    assert [(note["project_id"], note["items"], note["signal"]) for note in notes] == [
        (3, 5, "traces"),
        (4, 5, "traces"),
    ]
    assert [len(note["reason"]) for note in notes] == [len(BROKEN), 300]
    assert found["damaged"] == []


def test_verify_reads_everything_and_names_what_is_damaged(command: Command, data: Path) -> None:
    text = shown(command("verify"))
    assert [line.split()[0] for line in text.splitlines()] == ["ok"] * 4
    assert "6 requests, 30 items" in text

    (segment,) = (data / "journal" / "0").glob("*.segment")
    content = bytearray(segment.read_bytes())
    content[content.index(BODY, content.index(BODY) + 1) + 5] ^= 1  # in the second request
    segment.write_bytes(content)
    (_, aside) = sorted((data / "journal" / "quarantine").glob("*.segment"))
    aside.write_bytes(aside.read_bytes().replace(BODY, BODY.lower()[::-1]))
    done = command("verify")
    assert done.code == 1
    assert done.err.startswith("sluice: 2 files are damaged")
    bad = [line for line in done.out.splitlines() if line.startswith("BAD")]
    assert len(bad) == 2
    assert "requests 2 to 2 of project 2" in bad[0]
    assert bad[1].endswith(f"quarantine/{aside.name}  cannot be read")


def test_verify_reports_missing_requests_that_the_ledger_records(command: Command, data: Path) -> None:
    (segment,) = (data / "journal" / "0").glob("*.segment")
    content = segment.read_bytes()
    segment.write_bytes(content[: content.rindex(BODY)])
    done = command("verify")
    assert done.code == 1
    assert "1 requests at its end are missing" in done.out


async def fill(data: Path) -> list[Path]:
    """Six requests more in journal 0; returns their three segments."""
    limits = msgspec.structs.replace(LIMITS, segment_bytes=2**16)
    metrics = JournalMetrics(CollectorRegistry())
    again = Journal(data / "journal", limits, metrics, structlog.get_logger("test"))
    again.open()
    for _ in range(6):
        await again.append(request(1)._replace(body=BODY * 20))
    await again.close()
    return sorted((data / "journal" / "0").glob("*.segment"))[1:]


async def test_a_deleted_segment_is_missing_until_the_next_start_reports_it(
    command: Command, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, middle, _ = await fill(data)
    middle.unlink()
    shutil.copy(first, first.with_name(f"{99:020d}.segment"))
    assert [facts["missing"] for facts in inspected(command)["journals"]] == [[[9, 10]], []]
    text = shown(command("inspect"))
    assert ["0", "9", "to", "10", middle.name] in [line.split() for line in text.splitlines()]
    done = command("verify")
    assert done.code == 1
    assert [line for line in done.out.splitlines() if line.startswith("BAD")] == [
        f"BAD  0/{99:020d}.segment  is a copy of {first.name}, or is that segment under another name",
        f"BAD  0/{middle.name}  is missing, requests 9 to 10",
    ]
    assert done.err.startswith("sluice: 2 files are damaged or missing")
    restarted = journal(data / "journal")
    restarted.open()
    await restarted.close()
    assert "segments of the journal are missing" in capsys.readouterr().out
    found = inspected(command)
    assert [facts["missing"] for facts in found["journals"]] == [[], []]
    assert [note["sequences"] for note in found["damaged"]] == [[], [[9, 10]]]
    assert "Damaged and lost" in shown(command("inspect"))
    shown(command("verify"))


def test_verify_reports_segments_that_have_the_same_requests(tmp_path: Path, command: Command) -> None:
    disk = Disk()
    rig = three_segments(disk)
    kill(rig)
    file = disk.files.pop(path(11))
    rig.start()
    rig.journal.ledger.state.next_sequence = 14  # as earlier releases began it
    write(rig, 14)
    kill(rig)
    disk.files[path(11)] = file  # put back: it has 11 to 15
    for name, content in disk.files.items():
        written = tmp_path / "other" / "journal" / name.relative_to(ROOT)
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(content.content())
    done = command("verify", directory=tmp_path / "other")
    assert (done.code, done.err.startswith("sluice: 1 file is damaged or missing")) == (1, True)
    assert [line for line in done.out.splitlines() if line.startswith("BAD")] == [
        (
            f"BAD  0/{path(11).name}  overlaps {path(14).name}: "
            f"2 requests of this segment have the same sequences as requests of {path(14).name}"
        )
    ]


def test_verify_reports_a_newer_format_as_not_read(command: Command, data: Path) -> None:
    (segment,) = (data / "journal" / "0").glob("*.segment")
    content = bytearray(segment.read_bytes())
    content[8:10] = struct.pack("<H", VERSION + 1)
    content[60:64] = struct.pack("<I", crc32c(bytes(content[:60])))
    segment.write_bytes(content)
    done = command("verify")
    assert done.code == 1
    assert f"written by a newer release (format version {VERSION + 1})" in done.out


async def test_requeued_requests_are_a_journal_that_the_next_process_takes_over(command: Command, data: Path) -> None:
    name = inspected(command)["quarantine"][0]["name"]
    assert "requeued as journal 2" in shown(command("requeue", name))
    found = inspected(command)
    assert [one["note"]["project_id"] for one in found["quarantine"]] == [4]
    assert [batch["batch"] for batch in found["journals"][2]["batches"]] == [12]
    shown(command("requeue", "--all"))
    assert inspected(command)["quarantine"] == []
    assert shown(command("requeue", "--all")) == "The quarantine is empty.\n"
    again = journal(data / "journal" / "2")
    (batch,) = again.open().unfinished
    ((_, taken),) = await again.read_batch(batch)
    await again.close()
    assert (batch.batch_id, taken) == (12, request(3))


def test_a_failure_is_one_sentence(command: Command, tmp_path: Path) -> None:
    def refused(code: int, *arguments: str, **options: Path) -> str:
        done = command(*arguments, **options)
        assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
        return done.err

    assert "There is no journal at" in refused(1, "inspect", directory=tmp_path)
    assert "Name the files" in refused(2, "requeue")
    assert "The quarantine has no ../0/x.segment" in refused(1, "requeue", "../0/x")


@pytest.mark.parametrize("arguments", [("inspect",), ("verify",), ("requeue", "--all")], ids=lambda each: str(each[0]))
def test_the_directory_may_be_named_after_the_action_too(
    command: Command, data: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    after = command(*arguments, "--data", str(data), directory=tmp_path / "nowhere")
    assert after.err == ""
    assert after.code == 0


def test_it_is_a_command_and_its_directory_may_be_named_by_the_setting(data: Path, tmp_path: Path) -> None:
    settings = {"SLUICE_GATEWAY_JOURNAL_DIR": str(data / "journal"), "SLUICE_DATA": str(tmp_path / "other")}
    done = sluice("journal", "inspect", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Journals in {data}/journal\n")
    assert sluice("journal", **settings).returncode == 2


class Vanishing(Files):
    """Segments are there when the directory is read, and gone when they are opened."""

    def open(self, path: Path, *, write: bool = False) -> int:
        if path.suffix == ".segment":
            raise FileNotFoundError(path)
        return super().open(path, write=write)


async def test_files_that_a_running_gateway_removes_are_skipped(data: Path) -> None:
    root, files = data / "journal", Vanishing()
    assert [facts.segments for facts in inspection.inspect(root, files)] == [[], []]
    assert list(inspection.verify(root, files)) == []
    assert list(inspection.list_quarantined(root, files, verify=True)) == []
    assert len(list(inspection.list_quarantined(root, files))) == 2
