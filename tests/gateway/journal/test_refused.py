"""A group that fails in memory, not on the disk: it is refused, and nothing but it is gone."""

import pytest

from gateway.journal.format import frames as fmt
from gateway.journal.storage.retention import Retention
from gateway.journal.storage.segments import Segment
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import Rig

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
