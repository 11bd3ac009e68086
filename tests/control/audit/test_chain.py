"""The chain of events as pure functions; hashes are checked with the standard library's JSON, too."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.audit.chain import GENESIS_HASH, ChainBreak, ChainVerifier, Event, canonical_json, hash_event
from proto.identity import PrincipalKind

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts)
datas = st.dictionaries(
    texts, st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
)


def chain(length: int, **changed: Any) -> list[Event]:
    events: list[Event] = []
    before = GENESIS_HASH.hex()
    for seq in range(1, length + 1):
        event = Event(
            org_id="org_1",
            seq=seq,
            at="2026-11-20T15:17:03.123Z",
            actor_principal_id="prn_1",
            actor_kind=PrincipalKind.AGENT,
            on_behalf_of_principal_id="prn_2",
            act_chain=["prn_1"],
            token_id="tok_1",  # an id
            action="policy.update",
            object_id="pol_1",
            data={"number": seq, **changed},
            request_id="r",
            prev_hash=before,
            hash=GENESIS_HASH.hex(),
        )
        event = msgspec.structs.replace(event, hash=hash_event(event).hex())
        before = event.hash
        events.append(event)
    return events


def broken(events: list[Event], noted: dict[int, bytes] | None = None) -> ChainBreak | None:
    verifier = ChainVerifier(noted or {})
    for event in events:
        verifier.add(event)
    return verifier.end()


@settings(max_examples=50)
@given(datas)
def test_hash_is_that_of_canonical_json(data: dict[str, Any]) -> None:
    [event] = chain(1, **data)
    line = json.loads(msgspec.json.encode(event))
    digest = line.pop("hash")
    written = json.dumps(line, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    assert digest == hashlib.sha256(written).hexdigest()


@given(st.data())
def test_change_of_any_field_is_located(data: st.DataObject) -> None:
    events = chain(5)
    assert broken(events) is None
    assert broken(events, {event.seq: bytes.fromhex(event.hash) for event in events}) is None
    at = data.draw(st.integers(0, 4))
    field = data.draw(st.sampled_from([one.name for one in msgspec.structs.fields(Event)]))
    changed = {"seq": 77, "data": {"number": 78}, "act_chain": [], "actor_kind": None, "hash": "0" * 64}
    events[at] = msgspec.structs.replace(events[at], **{field: changed.get(field, "1" * 64)})
    found = broken(events)
    assert found is not None
    assert found.seq == (77 if field == "seq" else at + 1)
    assert found.kind == ("missing" if field == "seq" else "altered")


def test_removed_inserted_and_swapped_events_are_detected() -> None:
    events = chain(5)
    for at in range(4):
        assert broken(events[:at] + events[at + 1 :]) == ChainBreak(at + 2, "missing")
        assert broken([*events[: at + 1], *events[at:]]) == ChainBreak(at + 1, "missing")
        swapped = [*events[:at], events[at + 1], events[at], *events[at + 2 :]]
        assert broken(swapped) == ChainBreak(at + 2, "missing")


def test_event_of_another_chain_is_detected() -> None:
    events, others = chain(3), chain(3, more=1)
    assert broken([events[0], others[1], others[2]]) == ChainBreak(2, "unlinked")


def test_truncated_and_rewritten_chains_are_detected_by_a_noted_hash() -> None:
    events = chain(5)
    noted = {5: bytes.fromhex(events[4].hash)}
    assert broken(events[:3]) is None
    assert broken(events[:3], noted) == ChainBreak(4, "cut")
    assert broken([], noted) == ChainBreak(1, "cut")
    assert broken(chain(6, more=1), noted) == ChainBreak(5, "replaced")


def test_floating_point_numbers_are_rejected() -> None:
    for value in (0.5, {"a": 0.5}, [{"a": [1.0]}]):
        with pytest.raises(TypeError):
            canonical_json(value)
