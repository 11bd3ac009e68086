"""Keys of issuers: registered, published, rotated, revoked; by administrators alone."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from control.approvals.proofs.intake import Intake
from control.approvals.proofs.issuers import MAX_ACTIVE_KEYS
from control.approvals.proofs.references import SubmittedBundle
from proto.proofs import dsse
from tests.control.approvals.proofs.made import BUNDLES, ISSUER, ISSUERS, KEY, bundle, get, register, signed, submit
from tests.control.conftest import Control


def body(key: Any = KEY, **fields: Any) -> dict[str, Any]:
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return {"issuer": ISSUER, "name": "CI", "publicKey": pem.decode(), **fields}


@pytest.mark.both_stores
async def test_the_life_of_a_key(control: Control) -> None:
    status, made, _ = await control.call("POST", ISSUERS, body())
    assert status == 201
    assert made == {
        "id": made["id"],
        "issuer": ISSUER,
        "name": "CI",
        "keyId": dsse.default_key_id(KEY.public_key()),
        "algorithm": "ED25519",
        "publicKey": dsse.public_pem(KEY.public_key()),
        "status": "ACTIVE",
        "validFrom": made["createdAt"],
        "validUntil": None,
        "revokedAt": None,
        "revocationReason": None,
        "createdByPrincipalId": control.acme.owner_id,
        "createdAt": made["createdAt"],
    }
    one = f"{ISSUERS}/{made['id']}"
    assert await get(control, one) == made
    assert await get(control, ISSUERS) == {"data": [made]}
    status, ended, _ = await control.call("PATCH", one, {"name": "Old CI", "validUntil": "2100-01-01T00:00:00Z"})
    assert (status, ended) == (200, made | {"name": "Old CI", "validUntil": "2100-01-01T00:00:00.000Z"})
    assert (await control.call("PATCH", one, {"validUntil": None}))[1] == made | {"name": "Old CI"}
    status, revoked, _ = await control.call("POST", f"{one}/revoke", {"reason": "It was in a log."})
    assert (status, revoked["status"], revoked["revocationReason"]) == (200, "REVOKED", "It was in a log.")
    assert await get(control, one) == revoked
    assert (await control.call("POST", f"{one}/revoke", {}))[0] == 409
    assert (await control.call("PATCH", one, {"name": "x"}))[0] == 409
    assert (await control.call("DELETE", one))[0] == 409
    unused = f"{ISSUERS}/{(await register(control, Ed25519PrivateKey.generate()))['id']}"
    assert (await control.call("DELETE", unused))[0] == 204
    assert (await control.call("GET", unused))[0] == 404
    actions = [one["action"] for one in (await get(control, "/orgs/acme/audit"))["data"]]
    names = ("delete", "create", "revoke", "change", "change", "create")
    assert [action for action in actions if action.startswith("proof_issuer.")] == [
        f"proof_issuer.{name}" for name in names
    ]


def pem_of(key: Any) -> dict[str, Any]:
    return {"publicKey": body(key)["publicKey"]}


async def test_what_is_no_key(control: Control) -> None:
    """A private key is quoted nowhere."""
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"publicKey": "x"}, "publicKey"),
        ({"publicKey": ""}, "publicKey"),
        (pem_of(rsa.generate_private_key(65_537, 2_048)), "publicKey"),
        (pem_of(ec.generate_private_key(ec.SECP384R1())), "publicKey"),
        ({"issuer": ""}, "issuer"),
        ({"issuer": "x" * 301}, "issuer"),
        ({"keyId": "x" * 201}, "keyId"),
        ({"keyId": "a\nb"}, "keyId"),
        ({"name": " x"}, "name"),
        ({"validFrom": "yesterday"}, "validFrom"),
        ({"validUntil": "2020-01-01T00:00:00Z"}, "validUntil"),
        ({"more": 1}, "more"),
    )
    for change, path in changes:
        status, answer, _ = await control.call("POST", ISSUERS, body(**change))
        assert (status, answer["error"]["details"][0]["path"]) == (400, f"body.{path}"), change
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private = KEY.private_bytes(*form).decode()
    status, answer, _ = await control.call("POST", ISSUERS, body() | {"publicKey": private})
    assert status == 400
    assert private.split("\n")[1] not in json.dumps(answer)
    assert answer["error"]["details"][0]["message"].startswith("Is a private key")
    key = ec.generate_private_key(ec.SECP256R1())
    made = (await control.call("POST", ISSUERS, body(key, keyId="p", validFrom="2100-01-01T00:00:00Z")))[1]
    assert (made["algorithm"], made["status"]) == ("ECDSA_P256", "NOT_YET_VALID")
    past = {"validFrom": "2026-01-01T00:00:00Z", "validUntil": "2026-02-01T00:00:00Z"}
    assert (await control.call("POST", ISSUERS, body(**past)))[1]["status"] == "EXPIRED"


async def test_keys_are_there_once(control: Control) -> None:
    made = await register(control, keyId="k")
    other = Ed25519PrivateKey.generate()
    for again in (body(keyId="other"), body(other, keyId="k")):
        assert (await control.call("POST", ISSUERS, again))[0] == 409
    assert (await submit(control, signed(bundle())))[0] == 201
    status, answer, _ = await control.call("DELETE", f"{ISSUERS}/{made['id']}")
    assert (status, answer["error"]["message"]) == (409, "Bundles were verified with this key. Revoke it instead.")
    status, answer, _ = await control.call("PATCH", f"{ISSUERS}/{made['id']}", {"validUntil": "2020-01-01T00:00:00Z"})
    assert (status, answer["error"]["details"][0]["path"]) == (400, "body.validUntil")


async def test_an_organization_has_a_maximum(control: Control) -> None:
    made = [await register(control, Ed25519PrivateKey.generate()) for _ in range(MAX_ACTIVE_KEYS)]
    status, answer, _ = await control.call("POST", ISSUERS, body())
    assert (status, answer["error"]["code"]) == (409, "conflict")
    assert (await control.call("POST", f"{ISSUERS}/{made[0]['id']}/revoke", {}))[0] == 200
    assert (await control.call("POST", ISSUERS, body()))[0] == 201, "keys that have ended make room"


async def test_a_key_that_is_revoked_while_a_bundle_is_read_does_not_count(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, read = await register(control), Intake.read

    async def read_while_it_is_revoked(intake: Intake, *arguments: Any) -> SubmittedBundle:
        found = await read(intake, *arguments)
        assert (await control.call("POST", f"{ISSUERS}/{made['id']}/revoke", {}))[0] == 200
        return found

    monkeypatch.setattr(Intake, "read", read_while_it_is_revoked)
    status, answer = await submit(control, signed(bundle()))
    message = "The key was revoked or changed while the bundle was submitted. Send the bundle again."
    assert (status, answer["error"]["details"][0]["message"]) == (400, message)
    assert (await get(control, BUNDLES))["data"] == []
