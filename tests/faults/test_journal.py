"""The disk of the journal is full, fails, forgets, or gives back something else than was written."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from gateway.journal import format as fmt
from gateway.journal.inspection import list_damaged
from tests.e2e.product import call, eventually
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site, settled
from tests.faults.loading import loaded, more, sending
from tests.faults.power import PAGE
from tests.faults.preload import Rule
from tests.faults.proxy import Proxy
from tests.faults.reconciliation import missing
from tests.faults.records import Body, Export, body_of
from tests.faults.zygote import Zygote

GOLDEN: Final = Path(__file__).with_name("golden")
GOLDEN_RUN: Final = "golden"
GOLDEN_EXPORTS: Final = (
    Export(0, 0, 5, "traces", "gzip", answers=["200"]),
    Export(0, 5, 4, "logs", "json", answers=["200"]),
    Export(1, 0, 3, "traces", "protobuf", answers=["200"]),
)


def disk_full(gateway: Gateway, full: Path) -> list[Rule]:
    """While the file `full` exists, the disk of the journal takes the beginning of a write and then nothing."""
    return [
        Rule("full", what, f"{gateway.journal}/*", 1, onwards=True, only_while=full) for what in ("write", "allocate")
    ]


def refused_for_want_of_room(gateway: Gateway, site: Site, run: str) -> None:
    """It says so, and when to come again."""
    body = body_of(Export(9, 0, 1), f"{run}-refused")
    answer = call("POST", gateway.url + body.path, body.content, headers_of(body, site))
    assert (answer.status, 1 <= int(answer.headers["Retry-After"]) <= 5) == (503, True)


def headers_of(body: Body, site: Site) -> dict[str, str]:
    return {**body.headers, "X-Legacy-Auth": f"Legacy legacy_key={site.key}"}


def test_fault_05_disk_of_the_journal_full(
    make_gateway: MakeGateway, zygote: Zygote, site: Site, run: str, tmp_path: Path
) -> None:
    """Exports are refused, nothing that was refused is found later, and all goes on when there is room again: in the
    process that met it, and in one that begins on the full disk.
    """
    full = tmp_path / "full"
    gateway = make_gateway(zygote=zygote)
    gateway.start(disk_full(gateway, full))
    with sending(gateway, site, run) as load:
        more(load)
        full.touch()
        before = load.count("503")
        eventually(lambda: load.count("503") >= before + 10, "exports are refused")
        refused_for_want_of_room(gateway, site, run)
        full.unlink()
        more(load)
    gateway.kill()
    full.touch()
    gateway.begin(disk_full(gateway, full))
    gateway.wait_until_alive()
    refused_for_want_of_room(gateway, site, run)
    full.unlink()
    with loaded(gateway, site, f"{run}-again") as again:
        more(again)
    records = settled(site, gateway, load.exports, run)
    assert (records.faults, records.again, records.unanswered) == ({}, 0, 0), records
    assert site.stored(f"{run}-refused") == ({}, 0)


@pytest.mark.parametrize(("file", "kind", "refuses"), [("*.segment", "write", True), ("*/ledger-*", "ledger", False)])
def test_fault_07_fsync_fails_once(
    make_gateway: MakeGateway, zygote: Zygote, proxy: Proxy, site: Site, run: str, file: str, kind: str, refuses: bool
) -> None:
    """What the disk was told then is as good as lost, whatever later syncs say: after a power cut all that was
    acknowledged is there, and what was refused is not.
    """
    gateway = make_gateway(zygote=zygote, clickhouse_port=proxy.port, shadow=True)
    proxy.refuse()
    gateway.begin([Rule("EIO", "sync", f"{gateway.journal}{'/' * (file[0] != '*')}{file}", 6)])
    gateway.wait_until_ready()
    with sending(gateway, site, run) as load:
        eventually(lambda: gateway.metric("sluice_gateway_journal_failures_total", kind=kind) == 1, "a sync fails")
        more(load, 60)
    gateway.kill()
    gateway.layer.power_cut(None)
    proxy.pass_on()
    gateway.start()
    records = settled(site, gateway, load.exports, run)
    assert (records.faults, records.again, records.unanswered) == ({}, 0, 0), records
    assert (load.count("503") > 0) is refuses


class Kept(NamedTuple):
    """Exports that are in the journal alone, and their bodies as they came."""

    exports: list[Export]
    bodies: list[bytes]


def keep(gateway: Gateway, site: Site, run: str, count: int) -> Kept:
    """Send so many, one after the other."""
    kept = Kept([], [])
    for number in range(count):
        export = Export(0, number * 3, 3, ("traces", "logs")[number % 2])
        body = body_of(export, run)
        answer = call("POST", gateway.url + body.path, body.content, headers_of(body, site))
        assert answer.status == 200
        export.answers.append("200")
        kept.exports.append(export)
        kept.bodies.append(body.content)
    return kept


def flip(path: Path, offset: int) -> None:
    """One bit of a file becomes the other."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


def place_of(gateway: Gateway, body: bytes) -> tuple[Path, int]:
    """The segment that has a body, and where."""
    for path in sorted(gateway.journal.glob("*/*.segment")):
        offset = path.read_bytes().find(body)
        if offset >= 0:
            return path, offset
    raise AssertionError("the journal does not have it")


def test_fault_08_bits_flip(make_gateway: MakeGateway, zygote: Zygote, proxy: Proxy, site: Site, run: str) -> None:
    """In a body, in the header of a frame, of a segment, in the ledger: what cannot be read is counted and kept, the
    rest is stored once.
    """
    gateway = make_gateway(zygote=zygote, clickhouse_port=proxy.port)
    proxy.refuse()
    gateway.begin()
    gateway.wait_until_ready()
    kept = keep(gateway, site, run, 40)
    eventually(lambda: gateway.metric("sluice_gateway_journal_unfinished_bytes") > 0, "it is measured")
    gateway.kill()
    segments = sorted(gateway.journal.glob("*/*.segment"))
    assert len(segments) > 2
    path, offset = place_of(gateway, kept.bodies[3])
    flip(path, offset + 50)
    path, offset = place_of(gateway, kept.bodies[6])
    flip(path, offset - fmt.FRAME_HEADER_BYTES + 9)
    for copy in (0, PAGE // 2):
        flip(segments[-1], copy + 30)
    (ledger,) = gateway.journal.glob("*/ledger-*")
    flip(ledger, PAGE + fmt.FRAME_HEADER_BYTES + 5)
    proxy.pass_on()
    gateway.start()
    eventually(lambda: gateway.metric("sluice_gateway_journal_unfinished_bytes") == 0, "the rest is stored", 60)
    gateway.wait_until_settled()
    stored, wrong = site.stored(run)
    lost = [(0, sequence) for number in (3, 6) for sequence in kept.exports[number].good]
    assert (missing(kept.exports, stored), wrong) == (lost, 0)
    assert set(stored.values()) == {1}
    assert gateway.metric("sluice_gateway_journal_damaged_frames_total") == 4
    assert len(list(gateway.journal.glob("damaged/*.bytes"))) == 2


def test_fault_08_segments_are_deleted_emptied_copied_and_swapped(
    make_gateway: MakeGateway, zygote: Zygote, proxy: Proxy, site: Site, run: str
) -> None:
    """What is gone is counted, exactly, and noted; the rest is stored once, and a copy is no loss."""
    gateway = make_gateway(zygote=zygote, clickhouse_port=proxy.port)
    proxy.refuse()
    gateway.begin()
    gateway.wait_until_ready()
    kept = keep(gateway, site, run, 100)
    gateway.kill()
    segments = sorted(gateway.journal.glob("*/*.segment"))
    assert len(segments) >= 6
    deleted, emptied, one, other = segments[1:5]
    places = [place_of(gateway, body)[0] for body in kept.bodies]
    gone = [export for export, path in zip(kept.exports, places, strict=True) if path in (deleted, emptied)]
    shutil.copy(segments[0], one.with_name(f"{999:020d}.segment"))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    deleted.unlink()
    emptied.write_bytes(b"")
    proxy.pass_on()
    gateway.start()
    eventually(lambda: gateway.metric("sluice_gateway_journal_unfinished_bytes") == 0, "the rest is stored", 60)
    gateway.wait_until_settled()
    stored, wrong = site.stored(run)
    lost = [(export.client, sequence) for export in gone for sequence in export.good]
    assert (missing(kept.exports, stored), wrong) == (lost, 0)
    assert set(stored.values()) == {1}
    assert gateway.metric("sluice_gateway_journal_lost_requests_total") == len(gone)
    assert gateway.metric("sluice_gateway_journal_uncertain_requests_total") == 0
    assert "segments of the journal are missing" in gateway.log
    (note,) = [note for note in list_damaged(gateway.journal) if note.sequences]
    assert [last - first + 1 for first, last in note.sequences] == [len(gone)]


def contents(directory: Path) -> Mapping[Path, bytes]:
    """All but the lock that its process holds."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != "lock"}


def test_fault_27_journal_of_a_newer_release(make_gateway: MakeGateway, zygote: Zygote, site: Site) -> None:
    """It is refused with a sentence, and left as it was for that release."""
    gateway = make_gateway(zygote=zygote)
    shutil.copytree(GOLDEN / "version-1", gateway.journal / "0")
    (path,) = gateway.journal.glob("0/*.segment")
    content = path.read_bytes()
    header = fmt.read_file_header(content)
    assert header is not None
    path.write_bytes(fmt.pack_file_header(header._replace(version=2)) + content[fmt.PAGE :])
    before = contents(gateway.journal)
    gateway.begin()
    assert gateway.ends_by_itself(30)
    assert gateway.process.returncode == 1
    assert gateway.log.splitlines()[-1] == (
        f"sluice: {path} has version 2 of the journal's format, written by a newer release. This release reads "
        "version 1. "
        "Start the newer release again, and let it store the requests of the journal."
    )
    assert contents(gateway.journal) == before


def test_fault_27_journal_of_an_older_release(make_gateway: MakeGateway, zygote: Zygote, site: Site) -> None:
    """One that version 1 of the format was written to, checked in, is stored."""
    gateway = make_gateway(zygote=zygote)
    shutil.copytree(GOLDEN / "version-1", gateway.journal / "0")
    gateway.start()
    records = settled(site, gateway, GOLDEN_EXPORTS, GOLDEN_RUN)
    assert (records.faults, records.again, records.stored) == ({}, 0, 12), records
