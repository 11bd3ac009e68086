"""What a reader gets while others write: it goes in steps, and between any two of them there may be more requests."""

import pytest
from msgspec.structs import replace

from gateway.journal.storage.block_index import BLOCK_BYTES
from gateway.journal.storage.segment_index import run_to_completion
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import ALL, NO_LIMITS, Rig


@pytest.mark.parametrize("seconds", [0, 1], ids=["the_block_is_full", "the_block_is_a_second_old"])
def test_a_reader_passes_over_nothing_that_is_written_between_its_steps(seconds: int) -> None:
    """What the block it is at gets meanwhile is left to the next reader, and so is what comes after that."""
    rig = Rig(Disk(), limits=replace(NO_LIMITS, segment_bytes=8 * BLOCK_BYTES))
    journal = rig.start()
    body = bytes(BLOCK_BYTES // 5)
    journal.commit([rig.request(body), rig.request(body)])
    reading = journal.segment_set.read(0, ALL)
    next(reading)
    journal.commit([rig.request(body), rig.request(body)])
    rig.now += seconds
    journal.commit([rig.request(body) for _ in range(4)])
    found = [entry.sequence for entry in run_to_completion(reading)]
    rest = [entry.sequence for entry in rig.read(found[-1])]
    assert found + rest == list(range(1, 9))
