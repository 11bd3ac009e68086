"""Bundles of benchmarks: 200 claims of all kinds, in envelopes."""

import json
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proto.proofs import dsse
from tests.proto.proofs import shapes

ISSUER: Final = "https://ci.example.com"
KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PATH: Final = "/orgs/acme/projects/web/proof-bundles"
CLAIMS: Final = 200
_KEY_ID: Final = dsse.default_key_id(KEY.public_key())
_KINDS: Final = tuple(shapes.EVIDENCE)


def bundle(bundle_id: str, claims: int = CLAIMS, org_slug: str = "acme", **fields: Any) -> dict[str, Any]:
    """A bundle about the organization's project web."""
    made: dict[str, Any] = shapes.example(shapes.LEDGER) | {"bundleId": bundle_id}
    made["issuer"] = made["issuer"] | {"id": ISSUER, "keyId": None}
    made["subject"] = made["subject"] | {"orgSlug": org_slug, "projectSlug": "web"}
    made["claims"] = [
        shapes.example(shapes.claim(_KINDS[at % len(_KINDS)])) | {"claimId": f"c-{at}"} for at in range(claims)
    ]
    return made | fields


def signed(raw: bytes) -> bytes:
    """An envelope with the bundle, which names the key."""
    return dsse.encode(dsse.sign(raw, dsse.BUNDLE_TYPE, KEY, _KEY_ID))


def submission(token: str, name: str, number: int) -> tuple[str, str, dict[str, str], bytes]:
    """A request that hands in a signed bundle, each another one."""
    raw = _WHOLE.replace(b'"@id"', json.dumps(f"{name}-{number}").encode())
    headers = {"Authorization": f"Bearer {token}", "Content-Type": dsse.ENVELOPE_TYPE}
    return "POST", PATH, headers, signed(raw)


_WHOLE: Final = json.dumps(bundle("@id")).encode()
