"""How much a journal takes, and what it refuses when the disk or the memory does not take it."""

import asyncio
import errno
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from chassis.errors import ServiceUnavailable
from gateway.journal import (
    Batch,
)
from gateway.journal import format as fmt
from gateway.journal.core import DiskFull
from gateway.journal.storage.retention import Retention
from gateway.journal.storage.segments import Segment
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import NO_LIMITS, Rig
from tests.gateway.journal.running import LIMITS, journal_at, opened, request, until


async def test_beyond_its_quota_a_journal_takes_nothing_until_something_is_stored(tmp_path: Path) -> None:
    journal = journal_at(tmp_path, replace(LIMITS, max_bytes=2**20))
    async with opened(journal):
        for project_id in range(7):
            await journal.append(request(bytes(130_000), project_id))
        with pytest.raises(ServiceUnavailable) as refused:
            await journal.append(request(bytes(130_000), 7))
        assert refused.value.message == "The journal is full; retry later."
        assert refused.value.retry_after in range(1, 6)
        await journal.append(request(bytes(100), 7))  # there is room for this
        await journal.begin(Batch(1, 2, ((1, 6),)))
        journal.finish(1, {})
        await until(lambda: journal.nbytes < 2**19)
        await journal.append(request(bytes(130_000), 7))


async def test_a_project_alone_may_fill_eight_ninths_and_the_next_finds_room(tmp_path: Path) -> None:
    journal = journal_at(tmp_path, replace(LIMITS, max_bytes=2**20))
    async with opened(journal):
        while journal.room_bytes > 51_000:
            assert journal.room_bytes == journal.max_project_room_bytes
            await journal.append(request(bytes(50_000), 1))
        assert 0.75 * 2**20 < journal.nbytes < 0.9 * 2**20
        with pytest.raises(ServiceUnavailable) as refused:
            await journal.append(request(bytes(60_000), 1))
        assert refused.value.message == "The project's share of the journal is full; retry later."
        await journal.append(request(bytes(50_000), 2))
        assert journal.room_bytes == 0 < journal.max_project_room_bytes


async def test_two_projects_may_have_as_much_each_and_a_third_finds_room(tmp_path: Path) -> None:
    journal = journal_at(tmp_path, replace(LIMITS, max_bytes=2**22))
    async with opened(journal):
        while journal.room_bytes > 100_000:
            for project_id in (1, 2):
                await journal.append(request(bytes(50_000), project_id))
        for project_id in (1, 2):
            with pytest.raises(ServiceUnavailable):
                await journal.append(request(bytes(110_000), project_id))
        await journal.append(request(bytes(110_000), 3))


async def test_what_is_stored_gives_way_to_what_is_not(tmp_path: Path) -> None:
    """Held segments count against nobody: they are removed when the quota needs their room."""
    journal = journal_at(tmp_path, replace(LIMITS, max_bytes=2**20, hold_s=600))
    async with opened(journal):
        for number in range(1, 60):
            await journal.append(request(bytes(100_000)))
            await journal.begin(Batch(number, 2, ((number, number),)))
            journal.finish(number, {})
        assert journal.nbytes <= 2**20
        assert journal.retained_batches()


async def test_a_disk_that_is_nearly_full_is_left_alone_until_it_is_not(tmp_path: Path) -> None:
    disk = Disk()
    journal = journal_at(Path("/journal"), replace(LIMITS, min_free_bytes=2**30), files=disk)
    async with opened(journal):
        await journal.append(request(b"x"))
        disk.free = 2**30 - 1
        with pytest.raises(ServiceUnavailable) as refused:
            await asyncio.gather(*(journal.append(request(bytes(10_000))) for _ in range(1000)))
        assert refused.value.message == "The journal's disk is nearly full; retry later."
        disk.free = 2**40
        await until(lambda: not journal._core.retention.is_disk_low)
        await journal.append(request(b"x"))


@pytest.mark.parametrize(
    "fault", [("sync", errno.EIO), ("rest", errno.ENOSPC), ("write", errno.EIO)], ids=lambda f: f[0]
)
async def test_requests_that_cannot_be_written_are_refused_and_the_next_ones_are_not(fault: tuple[str, int]) -> None:
    disk, registry = Disk(), CollectorRegistry()
    journal = journal_at(Path("/journal"), files=disk, registry=registry)
    async with opened(journal):
        await journal.append(request(b"good"))
        disk.fail(*fault)
        with pytest.raises(ServiceUnavailable) as refused:
            await journal.append(request(bytes(5000)))
        assert refused.value.message == "The request could not be written to disk; retry later."
        assert await journal.append(request(b"better")) == 3
        assert [entry.request.body for entry in await journal.read(0, 2**30)] == [b"good", b"better"]
        assert registry.get_sample_value("sluice_gateway_journal_failures_total", {"kind": "write"}) == 1
    disk.kill_process()
    after = journal_at(Path("/journal"), files=disk)
    async with opened(after):
        assert [entry.request.body for entry in await after.read(0, 2**30)] == [b"good", b"better"]


async def test_records_that_cannot_be_written_are_refused_and_can_be_written_later(tmp_path: Path) -> None:
    disk = Disk()
    journal = journal_at(Path("/journal"), files=disk)
    batch = Batch(1, 2, ((1, 1),))
    async with opened(journal):
        await journal.append(request(b"x"))
        disk.fail("sync", errno.EIO, 20)
        with pytest.raises(ServiceUnavailable, match="The journal cannot be written to disk at the moment"):
            await journal.begin(batch)
        assert await journal.read(0, 2**30) == []
        disk.heal()
        await journal.begin(batch)
    disk.kill_process()
    async with opened(journal_at(Path("/journal"), files=disk)) as recovered:
        assert recovered.unfinished == [batch]


def disk_events(rig: Rig) -> list[str]:
    return [event for _, event, _ in rig.log.said if "journal's disk" in event]


def test_with_less_room_than_a_segment_the_disk_is_nearly_full_and_stays_so() -> None:
    rig = Rig(disk := Disk(), limits=replace(NO_LIMITS, min_free_bytes=2**20))
    rig.start()
    disk.free = 2**20 + NO_LIMITS.segment_bytes - 1
    for _ in range(5):
        with pytest.raises(DiskFull):
            rig.journal.commit([rig.request(b"x")])
        rig.now += 2
        rig.journal.tick()
        assert rig.journal.retention.is_disk_low
    assert disk_events(rig) == ["the journal's disk is nearly full"]
    disk.free += 1
    rig.now += 2
    rig.journal.tick()
    assert not rig.journal.retention.is_disk_low
    rig.journal.commit([rig.request(b"x")])
    rig.now += 2
    rig.journal.tick()  # the segment has room for more
    assert not rig.journal.retention.is_disk_low
    assert disk_events(rig)[1:] == ["the journal's disk has free space again"]


def test_a_group_that_is_too_large_for_the_disk_does_not_keep_others_away() -> None:
    rig = Rig(disk := Disk(), limits=replace(NO_LIMITS, min_free_bytes=2**20))
    rig.start()
    disk.free = 2**20 + 2 * NO_LIMITS.segment_bytes
    with pytest.raises(DiskFull):
        rig.journal.commit([rig.request(bytes(3 * NO_LIMITS.segment_bytes))])
    assert not rig.journal.retention.is_disk_low
    rig.journal.commit([rig.request(b"x")])
    assert disk_events(rig) == []


async def test_a_batch_whose_split_could_not_be_recorded_is_split_all_the_same() -> None:
    disk = Disk()
    journal = journal_at(Path("/journal"), files=disk)
    parts = [Batch(2, 2, ((1, 1),)), Batch(3, 2, ((2, 2),))]
    async with opened(journal):
        for body in (b"x", b"y"):
            await journal.append(request(body))
        await journal.begin(Batch(1, 2, ((1, 2),)))
        disk.fail("sync", errno.EIO, 20)
        with pytest.raises(ServiceUnavailable):
            await journal.split(1, parts)
        disk.heal()
        await journal.split(1, parts)  # again is the same
        journal.finish(3, {})
    disk.kill_process()
    async with opened(journal_at(Path("/journal"), files=disk)) as recovered:
        assert recovered.unfinished == parts[:1]


async def test_a_disk_without_room_for_a_segment_is_a_failure_of_the_disk() -> None:
    disk, registry = Disk(), CollectorRegistry()
    journal = journal_at(Path("/journal"), files=disk, registry=registry)
    async with opened(journal):
        disk.fail("allocate", errno.ENOSPC)
        with pytest.raises(ServiceUnavailable):
            await journal.append(request(b"x"))
        assert registry.get_sample_value("sluice_gateway_journal_failures_total", {"kind": "write"}) == 1
        await journal.append(request(b"x"))


PLACES = [
    (fmt, "pack_request_header"),
    (Segment, "add"),
    (Retention, "record_growth"),
]  # before, after and long after it is written


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
def test_requests_for_which_there_is_no_memory_are_refused_and_the_next_are_there_after_a_crash(
    place: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(disk := Disk())
    rig.start().commit([rig.request(b"first")])
    other = Policy(max_items=5)  # which is new, and declared with the next group again
    with monkeypatch.context() as patch:
        fail(patch, *place)
        with pytest.raises(MemoryError):
            rig.journal.commit([rig.request(body, other, project_id=7) for body in (b"refused", b"also")])
    rig.journal.commit([rig.request(b"next", other)])
    assert [entry.request.body for entry in rig.read()] == [b"first", b"next"]
    assert rig.journal.retention.charged_by_project().keys() == {1}
    disk.lose_power()
    rig.start()
    assert [(entry.request.body, entry.request.policy) for entry in rig.read()] == [
        (b"first", Policy()),
        (b"next", other),
    ]
    assert not disk.holds(b"refused")
    assert (rig.log.errors, rig.damaged_frames) == ([], 0)


def fail(patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Its last call for a group of two has no memory."""
    function, calls = getattr(owner, name), []

    def failing(*arguments: object, **more: object) -> object:
        calls.append(name)
        if len(calls) == 2 or name == "record_growth":
            raise MemoryError
        return function(*arguments, **more)

    patch.setattr(owner, name, failing)
