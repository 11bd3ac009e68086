"""Bundles and keys of tests."""

import base64
import io
import itertools
import json
from collections.abc import Sequence
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proto.proofs import dsse
from proto.proofs.bundle import PREDICATE_TYPE, STATEMENT_TYPE
from tests.control.conftest import Control
from tests.proto.proofs import shapes

BUNDLES: Final = "/orgs/acme/projects/web/proof-bundles"
ISSUERS: Final = "/orgs/acme/proof-issuers"
ISSUER: Final = "https://ci.example.com"
KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_number: Final = itertools.count(1)


def claim(kind: str, claim_id: str, evidence: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A claim of a kind, with what agrees with the bundle of `bundle`."""
    made: dict[str, Any] = shapes.example(shapes.claim(kind)) | {"claimId": claim_id, "recheck": None} | fields
    return made | {"evidence": made["evidence"] | (evidence or {})}


def bundle(
    claims: Sequence[dict[str, Any]] = (), subject: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """A bundle about acme's project web without contradictions. Each has an id of its own."""
    made: dict[str, Any] = shapes.example(shapes.LEDGER)
    made |= {"bundleId": f"b-{next(_number)}", "tier": "A", "verdict": "PASSED", "billable": True}
    made["issuer"] = made["issuer"] | {"id": ISSUER, "keyId": None}
    made["subject"] = made["subject"] | {"orgSlug": "acme", "projectSlug": "web"} | (subject or {})
    made["claims"] = list(claims) or [claim("model_attribution", "c-1")]
    return made | fields


def statement(made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The bundle in a Statement with the ai-authored-change predicate."""
    predicate: dict[str, Any] = shapes.example(shapes.PREDICATE) | {"ledger": made}
    repeated = {name: made[name] for name in ("tier", "verdict", "billable", "specUri")}
    patch = made["subject"]["patch"]["diffDigest"].removeprefix("sha256:")
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "patch", "digest": {"sha256": patch}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate | {"verification": repeated},
    } | fields


def signed(made: dict[str, Any], key: Ed25519PrivateKey = KEY, key_id: str = "k") -> bytes:
    """The bundle in an envelope."""
    return dsse.encode(dsse.sign(json.dumps(made).encode(), dsse.BUNDLE_TYPE, key, key_id))


def changed_payload(envelope: bytes, made: dict[str, Any]) -> bytes:
    """The envelope with another payload under the same signatures."""
    fields = json.loads(envelope)
    return json.dumps(fields | {"payload": base64.b64encode(json.dumps(made).encode()).decode()}).encode()


async def submit(
    control: Control,
    made: dict[str, Any] | bytes,
    media_type: str | None = None,
    *,
    token: str | None = None,
    path: str = BUNDLES,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    """Hand in; bytes are an envelope unless a media type is given."""
    raw = made if isinstance(made, bytes) else json.dumps(made).encode()
    kind = media_type or (dsse.ENVELOPE_TYPE if isinstance(made, bytes) else "application/json")
    status, answer, _ = await control.call(
        "POST", path, token=token, data=io.BytesIO(raw), headers={"Content-Type": kind} | (headers or {})
    )
    return status, answer


async def validate(control: Control, made: dict[str, Any] | bytes, media_type: str | None = None) -> Any:
    """What validation says."""
    status, answer = await submit(control, made, media_type, path=f"{BUNDLES}/validate")
    assert status == 200, answer
    return answer


async def register(
    control: Control, key: Ed25519PrivateKey = KEY, *, org: str = "acme", token: str | None = None, **fields: Any
) -> Any:
    """A key of ISSUER, registered by acme's owner unless another token is given; valid since 2026."""
    body = {
        "issuer": ISSUER,
        "name": "CI",
        "publicKey": dsse.public_pem(key.public_key()),
        "validFrom": "2026-01-01T00:00:00Z",
        **fields,
    }
    status, answer, _ = await control.call("POST", ISSUERS.replace("acme", org), body, token)
    assert status == 201, answer
    return answer


async def get(control: Control, path: str, token: str | None = None, **query: str) -> Any:
    """The answer of a GET that succeeds."""
    status, answer, _ = await control.call("GET", path, token=token, params=query)
    assert status == 200, answer
    return answer
