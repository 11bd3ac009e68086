"""Bundles of benchmarks: 200 claims of all kinds, in envelopes; and what nobody should send."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proto.proofs import dsse
from proto.proofs.bundle import PREDICATE_TYPE, STATEMENT_TYPE
from tests.proto.proofs import shapes

ISSUER: Final = "https://ci.example.com"
KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PATH: Final = "/orgs/acme/projects/web/proof-bundles"
CLAIMS: Final = 200
LARGEST: Final = 4 * 2**20 - 4_096
_KINDS: Final = tuple(shapes.EVIDENCE)


def bundle(bundle_id: str, claims: int = CLAIMS, **fields: Any) -> dict[str, Any]:
    """A bundle about acme's project web."""
    made: dict[str, Any] = shapes.example(shapes.LEDGER) | {"bundleId": bundle_id}
    made["issuer"] = made["issuer"] | {"id": ISSUER, "keyId": None}
    made["subject"] = made["subject"] | {"orgSlug": "acme", "projectSlug": "web"}
    made["claims"] = [
        shapes.example(shapes.claim(_KINDS[at % len(_KINDS)])) | {"claimId": f"c-{at}"} for at in range(claims)
    ]
    return made | fields


def signed(raw: bytes) -> bytes:
    """An envelope with the bundle."""
    return dsse.encode(dsse.sign(raw, dsse.BUNDLE_TYPE, KEY, "k"))


def submission(token: str, name: str, number: int) -> tuple[str, str, dict[str, str], bytes]:
    """A request that hands in a signed bundle, each another one."""
    raw = _WHOLE.replace(b'"@id"', json.dumps(f"{name}-{number}").encode())
    headers = {"Authorization": f"Bearer {token}", "Content-Type": dsse.ENVELOPE_TYPE}
    return "POST", PATH, headers, signed(raw)


_WHOLE: Final = json.dumps(bundle("@id")).encode()


def _with_claims(text: str) -> bytes:
    return json.dumps(bundle("x", 0)).replace('"claims": []', f'"claims": [{text}]').encode()


def _with_annotations(text: str) -> bytes:
    predicate = shapes.example(shapes.PREDICATE) | {"ledger": bundle("x", 1)}
    subject = [{"uri": "x", "annotations": "@"}]
    made = {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": PREDICATE_TYPE, "predicate": predicate}
    return json.dumps(made).replace('"@"', f'{{"a": [{text}]}}').encode()


def _inputs() -> bytes:
    inputs = {f"{number:x}": "" for number in range(LARGEST // 13)}
    recheck: dict[str, Any] = {"mechanism": "API", "instruction": "", "expectation": "", "notes": None}
    recheck |= {"reproducibility": "DETERMINISTIC", "inputs": inputs}
    made = bundle("x", 1)
    made["claims"][0]["recheck"] = recheck
    return json.dumps(made, separators=(",", ":")).encode()


def _paths() -> bytes:
    containment = shapes.example(shapes.claim("blast_radius_containment"))
    evidence = containment["evidence"] | {"pathsTouched": ["x" * 36] * 500}
    claims = [containment | {"claimId": f"c-{at}", "evidence": evidence} for at in range(CLAIMS)]
    return json.dumps(bundle("x", 0) | {"claims": claims}).encode()


def _unknown_keys() -> bytes:
    return ("{" + ",".join(f'"{number:x}":1' for number in range(LARGEST // 11)) + "}").encode()


def _filled(item: str) -> str:
    return ",".join([item] * ((LARGEST - 40_000) // (len(item) + 1)))


HOSTILE: Final[Mapping[str, tuple[str, Callable[[], bytes]]]] = MappingProxyType(
    {
        "legal: 100 000 paths": (dsse.BUNDLE_TYPE, _paths),
        "legal: 300 000 inputs": (dsse.BUNDLE_TYPE, _inputs),
        "legal: 90 000 lists": (dsse.STATEMENT_MEDIA_TYPE, lambda: _with_annotations(",".join(["[]"] * 90_000))),
        "a million lists": (dsse.STATEMENT_MEDIA_TYPE, lambda: _with_annotations(_filled("[]"))),
        "a million claims": (dsse.BUNDLE_TYPE, lambda: _with_claims(_filled("{}"))),
        "two million numbers": (dsse.BUNDLE_TYPE, lambda: _with_claims(_filled("1"))),
        "unknown keys": (dsse.BUNDLE_TYPE, _unknown_keys),
        "wrong signatures": (
            dsse.ENVELOPE_TYPE,
            lambda: dsse.encode(
                dsse.Envelope(bytes(3 * 2**20 - 8_192), dsse.BUNDLE_TYPE, (dsse.Signature("A" * 86, "k"),) * 16)
            ),
        ),
    }
)
