"""SIGKILL of `sluice control`, again and again while people ask and decide: every message arrives, under one id.

`python -m tests.faults.control_kills --count 200` is the same for as long as one likes.
"""

from pathlib import Path

import pytest

from tests.faults.control_kills import kill_again_and_again
from tests.faults.office import Office
from tests.faults.zygote import Zygote
from tests.selection import scaled


@pytest.mark.sized
def test_sigkill_of_control(database_url: str, tmp_path: Path) -> None:
    with Zygote() as zygote:  # one of its own: what it forks reads the rules of this layer
        office = Office(tmp_path / "office", database_url, zygote)
        try:
            done = kill_again_and_again(office, seed=6, count=scaled(4, 60))
            office.stop()
        finally:
            office.close()
    assert done.told.faults == [], done
    assert done.reached.total() > done.passed_over.total(), done
    assert done.told.repeated > 0, "no kill hit an attempt"
    assert {"approval.approved", "approval.rejected", "approval.expired"} == set(done.told.decided), done
    assert office.receiver.refused > 0
    print(done)  # noqa: T201 (with its seed)
