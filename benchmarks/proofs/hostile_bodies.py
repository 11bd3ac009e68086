"""The largest bodies that are legal, those that are not, and smaller ones that take long: what nobody should send."""

import json
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from benchmarks.proofs.making import CLAIMS, bundle, signed
from control.approvals.proofs.intake import MAX_CONTAINERS
from proto.proofs import dsse
from proto.proofs.bundle import PREDICATE_TYPE, STATEMENT_TYPE
from proto.proofs.reading import MAX_BYTES
from tests.proto.proofs import shapes

SMALL: Final = "legal: signed and small"
_LARGEST: Final = MAX_BYTES - 16_384  # of what fills a body
_ON_THE_LOOP: Final = 256 * 1_024 - 8_192  # larger ones are read beside the event loop
_EXPLAINED: Final = 2**20 - 8_192  # of larger ones only the first fault is named
_LISTS: Final = MAX_CONTAINERS - 100
_RECHECK: Final[dict[str, Any]] = {
    "mechanism": "API",
    "instruction": "",
    "expectation": "",
    "notes": None,
    "reproducibility": "DETERMINISTIC",
    "inputs": {},
}

Make = Callable[[str], bytes]


class Case(NamedTuple):
    """`make`: the body for the organization with a slug, in `media_type`. `is_legal`: it is handed in and stored;
    others are validated.
    """

    name: str
    media_type: str
    make: Make
    is_legal: bool = False


def cases() -> list[Case]:
    """From the legal ones to those of a wrong shape."""
    plain, around, envelope = dsse.BUNDLE_TYPE, dsse.STATEMENT_MEDIA_TYPE, dsse.ENVELOPE_TYPE
    objects = _objects()
    return [
        Case("legal: texts at their longest", plain, _texts("x"), is_legal=True),
        Case("legal: the same, a wide letter in each", plain, _texts("\U0001f600"), is_legal=True),
        Case("legal: the most objects", plain, objects, is_legal=True),
        Case("legal: the most paths", plain, _paths(), is_legal=True),
        Case("legal: the most inputs", plain, _inputs(_LARGEST), is_legal=True),
        Case("legal: the most contradictions", plain, _contradictions(), is_legal=True),
        Case("legal: the most lists in annotations", around, _annotated("[]", _LISTS), is_legal=True),
        Case("legal: two million numbers in annotations", around, _annotated("1"), is_legal=True),
        Case("legal: a million broken numbers", around, _annotated("0.1"), is_legal=True),
        Case("legal: 800 000 strings", around, _annotated('"ab"'), is_legal=True),
        Case("legal: annotations 31 deep", around, lambda org: _statement(org, _nested(31)), is_legal=True),
        Case("legal: signed, the most objects that fit", envelope, _signed(objects), is_legal=True),
        Case(SMALL, envelope, _small, is_legal=True),
        Case("a million lists in annotations", around, _annotated("[]")),
        Case("a million claims that are none", plain, _wrong_claims("{}")),
        Case("two million numbers as claims", plain, _wrong_claims("1")),
        Case("unknown keys", plain, _unknown_keys(_LARGEST)),
        Case("unknown keys, 1 MiB", plain, _unknown_keys(_EXPLAINED)),
        Case("the last input is a number, 1 MiB", plain, _inputs(_EXPLAINED, last=1)),
        Case("the last input is a number, 248 KiB", plain, _inputs(_ON_THE_LOOP, last=1)),
        Case("an input is there twice", plain, _repeated(_inputs(_LARGEST))),
        Case("an input is there twice, 248 KiB", plain, _repeated(_inputs(_ON_THE_LOOP))),
        Case("90 000 deep", around, lambda org: _statement(org, _nested(90_000))),
        Case("sixteen wrong signatures", envelope, _wrong_signatures(_LARGEST)),
        Case("sixteen wrong signatures, 248 KiB", envelope, _wrong_signatures(_ON_THE_LOOP)),
    ]


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _statement(org: str, annotations: str) -> bytes:
    made = bundle(f"b-{org}-{zlib.crc32(annotations.encode())}", 1, org)
    predicate = shapes.example(shapes.PREDICATE) | {"ledger": made}
    subject = [{"uri": "x", "annotations": "@"}]
    statement = {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": PREDICATE_TYPE, "predicate": predicate}
    return _dumped(statement).replace(b'"@"', annotations.encode())


def _annotated(item: str, most: int = MAX_BYTES) -> Make:
    """A statement whose annotations have a list of the item."""
    items = ",".join([item] * min(most, _LARGEST // (len(item) + 1)))
    return lambda org: _statement(org, f'{{"a":[{items}]}}')


def _nested(depth: int) -> str:
    return '{"a":' + "[" * depth + "]" * depth + "}"


def _with_claims(name: str, claims: Iterable[Any]) -> Make:
    filled = _dumped(list(claims))
    if len(filled) > _LARGEST:
        raise ValueError(f"{name}: {len(filled)} bytes")
    return lambda org: _dumped(bundle(f"b-{org}-{name}", 0, org)).replace(b'"claims":[]', b'"claims":' + filled)


def _claims(kind: str, number: int, evidence: dict[str, Any], fields: dict[str, Any]) -> list[dict[str, Any]]:
    claim = shapes.example(shapes.claim(kind)) | {"recheck": None} | fields
    claim["evidence"] = claim["evidence"] | evidence
    return [claim | {"claimId": f"c-{at}"} for at in range(number)]


def _texts(letter: str) -> Make:
    """200 claims with texts at their longest, as far as 4 MiB go."""
    recheck = _RECHECK | dict.fromkeys(("instruction", "expectation", "notes"), letter + "x" * 1_990)
    fields = {"recheck": recheck, "disclosures": [letter + "x" * 590] * 20, "statement": letter + "x" * 390}
    claims = _claims("suite_green", CLAIMS, {"command": letter + "x" * 1_500}, fields)
    return _with_claims(f"texts-{ord(letter)}", claims)


def _objects() -> Make:
    """As many small objects as there can be: differences, 200 in each claim."""
    difference = shapes.example(shapes.EVIDENCE["behavioral_diff"])["findings"][0]
    least = {"sampleId": "", "selectionBasis": "", "pointer": "", "change": "", "normalizations": []}
    difference = difference | least | {"basis": {"rule": "", "detail": "x", "source": ""}}
    evidence: dict[str, Any] = {"findings": [difference] * 200}
    size = len(_dumped(_claims("behavioral_diff", 1, evidence, {}))) + 8
    return _with_claims("objects", _claims("behavioral_diff", min(CLAIMS, _LARGEST // size), evidence, {}))


def _paths() -> Make:
    evidence: dict[str, Any] = {"pathsTouched": ["x" * 36] * 500}
    return _with_claims("paths", _claims("blast_radius_containment", CLAIMS, evidence, {}))


def _contradictions() -> Make:
    """200 claims that contradict themselves in many places, with times that are none."""
    never = "2026-02-31T99:99:99Z"
    fingerprints = [{"fingerprint": "", "blamedCommit": "", "firstSeen": never, "events": 1}] * 50
    evidence: dict[str, Any] = dict.fromkeys(("openedAt", "closesAt", "closedAt"), never)
    evidence |= {"newFingerprints": fingerprints, "verdict": "DURABLE", "reverted": True}
    return _with_claims("contradictions", _claims("durability_window", CLAIMS, evidence, {"recordedAt": never}))


def _inputs(size: int, last: object = "") -> Make:
    """A claim with as many inputs as there can be, the last of which may be none."""
    inputs: dict[str, object] = {f"{number:05x}": "" for number in range(size // 11 - 200)}
    fields = {"recheck": _RECHECK | {"inputs": inputs | {"last": last}}}
    return _with_claims(f"inputs-{size}", _claims("model_attribution", 1, {}, fields))


def _repeated(make: Make) -> Make:
    """The first input again."""
    return lambda org: make(org).replace(b'"inputs":{', b'"inputs":{"00000":"",', 1)


def _wrong_claims(item: str) -> Make:
    claims = ",".join([item] * (_LARGEST // (len(item) + 1))).encode()
    return lambda org: _dumped(bundle("x", 0, org)).replace(b'"claims":[]', b'"claims":[' + claims + b"]")


def _unknown_keys(size: int) -> Make:
    return lambda _org: ("{" + ",".join(f'"{number:05x}":1' for number in range(size // 10)) + "}").encode()


def _wrong_signatures(size: int) -> Make:
    """Sixteen, of the right length."""
    signatures = tuple(dsse.Signature(f"{at:02d}" + "A" * 84, "k") for at in range(dsse.MAX_SIGNATURES))
    return lambda _org: dsse.encode(dsse.Envelope(bytes(size * 3 // 4 - 4_096), dsse.BUNDLE_TYPE, signatures))


def _signed(make: Make) -> Make:
    """The same bundle in an envelope, with fewer claims, so that it fits."""

    def fewer(org: str) -> bytes:
        made = json.loads(make(org))
        made["bundleId"] += "-signed"
        made["claims"] = made["claims"][: len(made["claims"]) * 73 // 100]
        return signed(_dumped(made))

    return fewer


def _small(org: str) -> bytes:
    return signed(_dumped(bundle(f"b-{org}-small", 1, org)))
