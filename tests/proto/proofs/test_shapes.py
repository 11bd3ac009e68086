"""The shapes of proof bundles, each bound on both sides."""

import json
from typing import Any

import msgspec
import pytest

from proto.proofs.bundle import AiAuthoredChange, Claim, ProofBundle, ResourceDescriptor
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
