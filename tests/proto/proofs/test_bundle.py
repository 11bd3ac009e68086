"""The shapes of proof bundles, each bound on both sides, and what the shapes cannot say."""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from proto.json_keys import RepeatedKey
from proto.proofs import dsse
from proto.proofs.bundle import PREDICATE_TYPE, STATEMENT_TYPE, AiAuthoredChange, Claim, ProofBundle, ResourceDescriptor
from proto.proofs.reading import is_envelope, read_payload
from proto.proofs.semantics import MAX_FINDINGS, check, repeated_claim_ids
from tests.proto.proofs import shapes


@pytest.mark.parametrize(
    ("type_", "shape"),
    [(Claim, shapes.claim(kind)) for kind in shapes.EVIDENCE]
    + [(ProofBundle, shapes.LEDGER), (AiAuthoredChange, shapes.PREDICATE)],
    ids=[*shapes.EVIDENCE, "ledger", "predicate"],
)
def test_each_bound_on_both_sides(type_: Any, shape: dict[str, Any]) -> None:
    decoder = msgspec.json.Decoder(type_)
    for value in shapes.allowed(shape):
        decoder.decode(json.dumps(value))
    for path, value in shapes.refused(shape):
        with pytest.raises(msgspec.ValidationError):
            raise AssertionError(f"{path} was accepted: {decoder.decode(json.dumps(value))!r:.200}")


def test_the_kinds_of_claims_are_those_of_the_table() -> None:
    bundle = shapes.example(shapes.LEDGER)
    bundle["claims"] = [shapes.example(shapes.claim(kind)) for kind in shapes.EVIDENCE]
    read = msgspec.json.decode(json.dumps(bundle), type=ProofBundle)
    assert msgspec.to_builtins(read) == bundle
    (schema,), known = msgspec.json.schema_components([Claim])
    assert set(schema["discriminator"]["mapping"]) == set(shapes.EVIDENCE)
    assert known


def test_resource_descriptor() -> None:
    decoder = msgspec.json.Decoder(ResourceDescriptor)
    value: dict[str, Any]
    for value in (
        {},
        {"name": "x" * 500, "uri": "x" * 500, "mediaType": "x" * 200, "annotations": {"a": [1, {"b": None}]}},
        {"digest": {"gitCommit": "0123456", "sha512": "f" * 128}},
    ):
        assert msgspec.to_builtins(decoder.decode(json.dumps(value))) == value
    for value in (
        {"name": "x" * 501},
        {"uri": "x" * 501},
        {"mediaType": "x" * 201},
        {"annotations": []},
        {"digest": {"sha256": "f" * 6}},
        {"digest": {"sha256": "f" * 129}},
        {"digest": {"sha256": "F" * 64}},
        {"digest": {"sha256": "f" * 64 + "\n"}},
        {"name": None},
        {"content": "x"},
    ):
        with pytest.raises(msgspec.ValidationError):
            decoder.decode(json.dumps(value))


def test_integers_are_safe_and_numbers_finite() -> None:
    decoder = msgspec.json.Decoder(ProofBundle)
    bundle = json.dumps(shapes.example(shapes.LEDGER)).replace('"addedLines": 1', '"addedLines": %s')
    assert decoder.decode(bundle % "9007199254740991").subject.patch.added_lines == 2**53 - 1
    for refused in ("9007199254740992", "-1", "1e400", "NaN", "1.5", "9" * 5_000):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(bundle % refused)


DIGEST = shapes.DIGEST


def _bundle(*claims: tuple[str, dict[str, Any]], status: str = "SUPPORTED", **fields: Any) -> ProofBundle:
    bundle: dict[str, Any] = shapes.example(shapes.LEDGER) | {"tier": "A", "verdict": "PASSED", "billable": True}
    bundle["claims"] = []
    for at, (kind, shown) in enumerate(claims):
        claim = shapes.example(shapes.claim(kind))
        bundle["claims"].append({**claim, "claimId": f"c{at}", "status": status, "evidence": claim["evidence"] | shown})
    return msgspec.convert(bundle | fields, ProofBundle)


def _found(bundle: ProofBundle) -> set[tuple[str, str]]:
    return {(one.severity.value, one.path) for one in check(bundle)}


MUTATION = {"generated": 4, "killed": 3, "survived": 1, "equivalent": 0, "invalid": 0, "score": 0.75, "threshold": 0.7}
CASES: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    ("repro_fails_on_head", {"observed": "FAILED"}, set()),
    ("repro_fails_on_head", {"observed": "PASSED", "exitCode": 0}, {("error", "observed")}),
    ("repro_fails_on_head", {"observed": "FAILED", "exitCode": 0}, {("warning", "exitCode")}),
    ("repro_passes_post_patch", {"exitCode": 0}, set()),
    ("repro_passes_post_patch", {"observed": "ERRORED"}, {("error", "observed")}),
    ("repro_passes_post_patch", {"exitCode": 0, "patchDigest": "sha256:" + "0" * 64}, {("error", "patchDigest")}),
    ("suite_green", {"passed": True, "testsFailed": 0}, set()),
    ("suite_green", {"passed": False}, {("error", "passed")}),
    ("suite_green", {"passed": True, "testsFailed": 1, "testsRun": 2}, {("error", "testsFailed")}),
    ("suite_green", {"passed": True, "scope": "none", "testsFailed": 0}, {("warning", "scope")}),
    ("mutation_pin_score", MUTATION, set()),
    ("mutation_pin_score", MUTATION | {"generated": 3}, {("error", "generated")}),
    ("mutation_pin_score", MUTATION | {"score": 0.9}, {("error", "score")}),
    ("mutation_pin_score", MUTATION | {"threshold": 0.8}, {("error", "score")}),
    ("flake_freedom", {"samples": 4, "failures": 1, "flakeRatePct": 25.0}, set()),
    ("flake_freedom", {"samples": 1, "failures": 2}, {("error", "failures")}),
    ("flake_freedom", {"samples": 4, "failures": 1, "flakeRatePct": 50.0}, {("warning", "flakeRatePct")}),
    (
        "flake_freedom",
        {"samples": 4, "failures": 1, "flakeRatePct": 25, "observedFrom": "2026-11-21T00:00:00Z"},
        {("error", "observedUntil")},
    ),
    ("blast_radius_containment", {"violations": []}, set()),
    ("blast_radius_containment", {"addedLines": 7}, {("error", "violations"), ("warning", "addedLines")}),
    ("approver_identity", {"humanApproval": True}, set()),
    ("approver_identity", {"humanApproval": True, "requiredApprovals": 2}, {("error", "receivedApprovals")}),
    ("approver_identity", {"humanApproval": True, "approver": None}, {("error", "approver")}),
    ("durability_window", {"state": "CLOSED", "originalFingerprintRecurrences": 0}, set()),
    ("durability_window", {"state": "CLOSED"}, {("error", "verdict")}),
    ("durability_window", {"verdict": "REGRESSED"}, {("warning", "verdict")}),
    ("durability_window", {"verdict": "PENDING", "closesAt": "2026-11-19T00:00:00Z"}, {("error", "closesAt")}),
    ("state_slice", {"withheldByPolicy": 2}, {("error", "withheldByPolicy")}),
    ("behavioral_diff", {"diffsFound": 1, "intended": 1, "unintended": 0, "unclassified": 0}, set()),
    ("behavioral_diff", {"diffsFound": 3}, {("error", "unintended")}),
    ("behavioral_diff", {"unintended": 0}, {("error", "diffsFound")}),
    ("divergence_localization", {}, set()),
    ("divergence_localization", {"firstDivergence": None}, {("error", "firstDivergence")}),
    ("divergence_localization", {"status": "NO_DIVERGENCE"}, {("error", "divergenceCount")}),
    ("divergence_localization", {"matchedFrames": 2}, {("error", "matchedFrames")}),
    ("patch_origin", {}, set()),
    ("mitigation_applied", {}, set()),
    ("mitigation_applied", {"expiresAt": "2026-11-19T00:00:00Z"}, {("error", "expiresAt")}),
    ("resource_envelope", {}, set()),
    ("model_attribution", {}, set()),
]


@pytest.mark.parametrize(
    ("kind", "shown", "expected"), CASES, ids=[f"{kind}-{at}" for at, (kind, *_) in enumerate(CASES)]
)
def test_evidence(kind: str, shown: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    found = _found(_bundle((kind, shown)))
    assert found == {(severity, f"claims[0].evidence.{path}") for severity, path in expected}


def test_the_verdict_agrees_with_tier_claims_and_billing() -> None:
    claim: tuple[str, dict[str, Any]] = ("model_attribution", {})
    assert not _found(_bundle(claim))
    assert _found(_bundle(claim, tier="VOID")) == {("error", "verdict"), ("error", "billable")}
    assert not _found(_bundle(claim, tier="VOID", verdict="VOID", billable=False))
    assert _found(_bundle(claim, tier="NONE")) == {("error", "billable")}
    assert _found(_bundle(claim, status="REFUTED")) == {("error", "claims[0].status")}
    assert not _found(_bundle(claim, status="REFUTED", verdict="FAILED", billable=False))
    assert _found(_bundle()) == {("warning", "claims")}


def test_times_are_of_the_calendar_and_in_order() -> None:
    assert _found(_bundle(("model_attribution", {}), issuedAt="2026-13-20T00:00:00Z")) == {("error", "issuedAt")}
    late = _bundle(("model_attribution", {}), issuedAt="2026-11-20T15:17:02.999Z")
    assert _found(late) == {("warning", "claims[0].recordedAt")}
    probe = shapes.example(shapes.EVIDENCE["state_slice"]["probe"]) | {"expiresAt": "2026-02-30T00:00:00Z"}
    assert _found(_bundle(("state_slice", {"probe": probe}))) == {("error", "claims[0].evidence.probe.expiresAt")}


def _places_of_times(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _places_of_times(each, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _places_of_times(each, f"{place}[{at}]")
    elif isinstance(value, str) and value[4:5] == "-" and value[10:11] == "T":
        yield place


@pytest.mark.parametrize("wrong", ["2026-02-30T00:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20T00:60:00Z"])
def test_every_time_of_every_claim_is_of_the_calendar(wrong: str) -> None:
    checked = 0
    for kind, shape in shapes.EVIDENCE.items():
        example = shapes.example(shape)
        for place in _places_of_times(example):
            shown = json.loads(json.dumps(example))
            *steps, last = re.findall(r"[^.\[\]]+", place)
            parent = functools.reduce(lambda one, step: one[int(step) if step.isdigit() else step], steps, shown)
            parent[last] = wrong
            assert ("error", f"claims[0].evidence.{place}") in _found(_bundle((kind, shown))), (kind, place)
            checked += 1
    assert checked > 20


def test_findings_are_bounded_and_errors_come_first() -> None:
    many = _bundle(*[("blast_radius_containment", {"addedLines": 9}) for _ in range(200)])
    found = check(many)
    assert len(found) == MAX_FINDINGS
    assert {one.severity.value for one in found} == {"error"}


def test_repeated_claim_ids() -> None:
    one = shapes.example(shapes.claim("model_attribution"))
    bundle = _bundle(claims=[one, {**one, "claimId": "other"}, one])
    assert repeated_claim_ids(bundle) == [2]
    assert ("error", "claims[2].claimId") in _found(bundle)


def test_payloads() -> None:
    ledger, predicate = shapes.example(shapes.LEDGER), shapes.example(shapes.PREDICATE)
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"digest": {"gitCommit": "0123456"}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    as_ledger, as_statement = json.dumps(ledger).encode(), json.dumps(statement).encode()
    assert read_payload(as_ledger, dsse.BUNDLE_TYPE) == read_payload(as_statement, dsse.STATEMENT_MEDIA_TYPE)
    for payload, payload_type in ((as_ledger, dsse.STATEMENT_MEDIA_TYPE), (as_statement, dsse.BUNDLE_TYPE)):
        with pytest.raises(msgspec.ValidationError):
            read_payload(payload, payload_type)
    change: dict[str, Any]
    for change in ({"_type": "x"}, {"predicateType": "x"}, {"subject": []}, {"more": 1}):
        with pytest.raises(msgspec.ValidationError):
            read_payload(json.dumps(statement | change).encode(), dsse.STATEMENT_MEDIA_TYPE)


@pytest.mark.parametrize("again", ['"tier":"A"', '"ti\\u0065r": "A"'])
def test_a_key_that_is_there_twice(again: str) -> None:
    text = json.dumps(shapes.example(shapes.LEDGER))
    with pytest.raises(RepeatedKey, match="'tier'"):
        read_payload((text[:-1] + "," + again + "}").encode(), dsse.BUNDLE_TYPE)
    recheck = shapes.example(shapes.claim("patch_origin"))
    whole = json.dumps(shapes.example(shapes.LEDGER) | {"claims": [recheck]})
    with pytest.raises(RepeatedKey, match=r"'claims\[0\]\.[a-z_A-Z.]*a' is"):
        read_payload(whole.replace('{"a": "b"}', '{"a": "b", "a": "b"}').encode(), dsse.BUNDLE_TYPE)


def test_files_that_look_like_envelopes() -> None:
    assert is_envelope(b'{"payload":"","payloadType":"","signatures":[]}')
    for raw in (b"{}", b"[]", b"", b"\xff", json.dumps(shapes.example(shapes.LEDGER)).encode()):
        assert not is_envelope(raw)


def _whole(shape: Any) -> Any:
    """An example with a value in every field and one item in every list."""
    if isinstance(shape, shapes.Nullable):
        return _whole(shape.inner)
    if isinstance(shape, shapes.Many):
        return [_whole(shape.inner)]
    if isinstance(shape, dict):
        return {name: _whole(each) for name, each in shape.items()}
    return shapes.example(shape)


def _times(value: Any, *at: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where the times of an example are."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _times(each, *at, key)
    elif value == shapes.TIME:
        yield at


@pytest.mark.parametrize("kind", list(shapes.EVIDENCE))
def test_every_time_is_one_of_the_calendar(kind: str) -> None:
    for at in _times(_whole(shapes.claim(kind))):
        path = "claims[0]" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in at)
        for text in ("2026-02-30T00:00:00Z", "2026-11-20T24:00:00Z", "2026-12-31T23:59:60Z", "0000-01-01T00:00:00Z"):
            claim: Any = _whole(shapes.claim(kind))
            place = claim
            for key in at[:-1]:
                place = place[key]
            place[at[-1]] = text
            assert ("error", path) in _found(_bundle(claims=[claim])), text
