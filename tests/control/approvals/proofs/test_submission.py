"""Bundles that are handed in: stored as they came, once, verified or said to be unsigned; or refused with a reason."""

import asyncio
import hashlib
import json
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from control.approvals.proofs.intake import MAX_CONTAINERS
from control.approvals.proofs.tables import proof_bundles, proof_usage
from proto.identity import Role
from proto.proofs import dsse
from tests.chassis.auth.tenants import new_member_token
from tests.control.approvals.proofs.made import (
    BUNDLES,
    ISSUER,
    ISSUERS,
    KEY,
    bundle,
    changed_payload,
    claim,
    get,
    register,
    signed,
    statement,
    submit,
    validate,
)
from tests.control.conftest import Control
from tests.proto.proofs import shapes

STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(32))


async def count(control: Control) -> int:
    async with control.checks.database.read() as connection:
        return int(await connection.scalar(sa.select(sa.func.count()).select_from(proof_bundles)) or 0)


@pytest.mark.both_stores
async def test_an_unsigned_bundle_from_handing_in_to_reading_back(control: Control) -> None:
    made = bundle([claim(kind, f"c-{kind}") for kind in shapes.EVIDENCE])
    raw = json.dumps(made, indent=1).encode()  # as nobody would encode it again
    status, stored = await submit(control, raw, "application/json")
    assert status == 201
    subject = made["subject"]
    assert {name: value for name, value in stored.items() if name not in ("errors", "warnings")} == {
        "id": stored["id"],
        "bundleId": made["bundleId"],
        "receivedAt": stored["receivedAt"],
        "submittedByPrincipalId": control.acme.owner_id,
        "mediaType": "application/json",
        "digest": "sha256:" + hashlib.sha256(raw).hexdigest(),
        "sizeBytes": len(raw),
        "signature": {"verified": False, "keyId": None, "issuerKeyId": None, "keyStatus": None},
        "issuedAt": made["issuedAt"],
        "issuer": ISSUER,
        "tier": "A",
        "verdict": "PASSED",
        "billable": True,
        "claimCount": 15,
        "issueId": None,
        "issueShortId": subject["issueShortId"],
        "title": subject["title"],
        "runId": subject["runId"],
        "proposalId": subject["proposalId"],
        "commit": subject["commit"],
        "errorCount": len(stored["errors"]),
        "warningCount": len(stored["warnings"]),
        "links": {"issueId": None, "approvalRequestIds": [], "traceIds": []},
    }
    assert {one["path"] for one in stored["warnings"]} >= {"subject"}
    path = f"{BUNDLES}/{made['bundleId']}"
    assert await get(control, path) == {**stored, "bundle": made, "attestation": None}
    async with control.client.get(
        f"{path}/raw", headers={"Authorization": f"Bearer {control.acme.token.secret}"}
    ) as answer:
        assert await answer.read() == raw
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{made["bundleId"]}.json"'
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert await submit(control, raw, "application/json") == (200, stored)
    assert await count(control) == 1


@pytest.mark.both_stores
async def test_a_signed_bundle(control: Control) -> None:
    key, made = await register(control), bundle()
    envelope = signed(made)
    status, stored = await submit(control, envelope)
    assert (status, stored["errors"]) == (201, [])
    signature = {"verified": True, "keyId": key["keyId"], "issuerKeyId": key["id"], "keyStatus": "ACTIVE"}
    assert stored["signature"] == signature
    assert stored["mediaType"] == dsse.ENVELOPE_TYPE
    assert (await get(control, f"{BUNDLES}/{made['bundleId']}"))["bundle"] == made
    assert await submit(control, envelope) == (200, stored)


async def test_a_statement_signed_and_not(control: Control) -> None:
    await register(control)
    made = statement(bundle())
    status, stored = await submit(control, made, dsse.STATEMENT_MEDIA_TYPE)
    assert (status, stored["errors"]) == (201, [])
    shown = await get(control, f"{BUNDLES}/{stored['bundleId']}")
    assert shown["bundle"] == made["predicate"]["ledger"]
    predicate = {name: value for name, value in made["predicate"].items() if name not in ("ledger", "formatVersion")}
    assert shown["attestation"] == {
        "subject": made["subject"],
        "predicateType": made["predicateType"],
        **predicate,
    }
    wrong = statement(bundle(), subject=[{"name": "x"}])
    wrong["predicate"]["verification"] |= {"tier": "B"}
    envelope = dsse.encode(dsse.sign(json.dumps(wrong).encode(), dsse.STATEMENT_MEDIA_TYPE, KEY, ""))
    status, stored = await submit(control, envelope)
    assert (status, stored["signature"]["verified"]) == (201, True)
    assert [one["path"] for one in stored["errors"]] == ["predicate.verification.tier"]
    assert {one["path"] for one in stored["warnings"]} == {"predicate.ledger.subject", "subject", "subject[0]"}


async def test_other_bytes_under_the_same_id_conflict(control: Control) -> None:
    await register(control)
    made = bundle()
    assert (await submit(control, made))[0] == 201
    status, answer = await submit(control, json.dumps(made, indent=2).encode(), "application/json")
    assert (status, answer["error"]["message"]) == (
        409,
        "A bundle with this bundleId, but other bytes, is already stored.",
    )
    assert (await submit(control, signed(made)))[0] == 201, "a verified bundle takes the id of an unsigned one"
    status, answer = await submit(control, made | {"tier": "B"})
    message = "A verified bundle with this bundleId, but other bytes, is already stored."
    assert (status, answer["error"]["message"]) == (409, message)
    assert (await submit(control, signed(made | {"tier": "B"})))[0] == 409
    path = f"{BUNDLES}/{made['bundleId']}"
    assert (await get(control, path))["signature"]["verified"] is True
    assert (await get(control, path, verified="false"))["signature"]["verified"] is False
    assert (await get(control, path, verified="true"))["signature"]["verified"] is True
    assert await submit(control, made) == (200, await _record(control, path))
    assert await count(control) == 2


async def _record(control: Control, path: str) -> Any:
    shown = await get(control, path, verified="false")
    return {name: value for name, value in shown.items() if name not in ("bundle", "attestation")}


@pytest.mark.both_stores
async def test_many_at_once_are_stored_once(control: Control) -> None:
    """The same bytes from all sides: one 201; then other bytes: one of them is the first."""
    made = bundle()
    answers = await asyncio.gather(*(submit(control, made) for _ in range(10)))
    assert sorted(status for status, _ in answers) == [200] * 9 + [201]
    assert len({json.dumps(answer) for _, answer in answers}) == 1
    other = bundle()
    rivals = await asyncio.gather(
        *(submit(control, other | {"issuedAt": f"2026-11-20T15:17:{n:02}Z"}) for n in range(10))
    )
    assert sorted(status for status, _ in rivals) == [201] + [409] * 9
    async with control.checks.database.read() as connection:
        used = (await connection.execute(sa.select(proof_usage.c.bundles, proof_usage.c.bytes))).one()
        sizes = list(await connection.scalars(sa.select(proof_bundles.c.size)))
    assert (used.bundles, used.bytes) == (2, sum(sizes))


def _about(made: dict[str, Any], **subject: str) -> dict[str, Any]:
    return made | {"subject": made["subject"] | subject}


FAULTS: list[tuple[Any, str, str]] = [
    (lambda made: made | {"tier": "D"}, "tier", "not_allowed"),
    (lambda made: made | {"formatVersion": "0.2.0"}, "formatVersion", "not_allowed"),
    (lambda made: _about(made, orgSlug="globex"), "subject.orgSlug", "mismatch"),
    (lambda made: _about(made, orgSlug="acme\u200b"), "subject.orgSlug", "mismatch"),
    (lambda made: _about(made, orgSlug="\u0430cme"), "subject.orgSlug", "mismatch"),
    (lambda made: _about(made, orgSlug="ACME"), "subject.orgSlug", "mismatch"),
    (lambda made: _about(made, projectSlug="x"), "subject.projectSlug", "mismatch"),
    (lambda made: made | {"claims": made["claims"] * 2}, "claims[1].claimId", "repeated"),
    (lambda made: made | {"claims": [made["claims"][0] | {"more": 1}]}, "claims[0].more", "unknown_field"),
    (lambda made: made | {"claims": [claim("suite_green", "c", {"durationMs": -1})]},
     "claims[0].evidence.durationMs", "too_small"),
    (lambda made: made | {"claims": [{}]}, "claims[0].kind", "missing"),
]  # fmt: skip


async def test_what_is_wrong_is_named(control: Control) -> None:
    await register(control)
    for change, path, code in FAULTS:
        made = change(bundle())
        status, answer = await submit(control, made)
        assert (status, answer["error"]["message"]) == (400, "The proof bundle is not valid.")
        assert (f"body.{path}", code) in faults(answer), answer
        refused = await validate(control, made)
        assert (refused["valid"], refused["signature"]) == (False, None)
        assert refused["errors"] == answer["error"]["details"]
        whole = statement(bundle())
        wrapped = json.dumps(whole | {"predicate": whole["predicate"] | {"ledger": made}}).encode()
        envelope = dsse.encode(dsse.sign(wrapped, dsse.STATEMENT_MEDIA_TYPE, KEY, "k"))
        for raw, media_type, place in (
            (wrapped, dsse.STATEMENT_MEDIA_TYPE, f"body.predicate.ledger.{path}"),
            (signed(made), dsse.ENVELOPE_TYPE, f"body.payload.{path}"),
            (envelope, dsse.ENVELOPE_TYPE, f"body.payload.predicate.ledger.{path}"),
        ):
            assert (place, code) in faults((await submit(control, raw, media_type))[1]), (path, media_type)
    assert await count(control) == 0


def faults(answer: Any) -> list[tuple[str, str]]:
    return [(one["path"], one["code"]) for one in answer["error"]["details"]]


async def test_what_is_no_bundle(control: Control) -> None:
    """Nor has one a key twice."""
    await register(control)
    cases: list[tuple[bytes, str, str]] = [
        (b"", "application/json", "Must be valid JSON."),
        (b"[" * 100_000, "application/json", "Is nested too deeply."),
        (b'{"a":"\xff"}', "application/json", "Must be valid JSON."),
        (b"[]", dsse.STATEMENT_MEDIA_TYPE, "Expected object, got array."),
        (b"{}", dsse.ENVELOPE_TYPE, "Is not a DSSE envelope"),
        (signed(bundle()), "application/json", "Is a DSSE envelope: send it as application/vnd.dsse.envelope.v1+json."),
    ]
    for raw, media_type, message in cases:
        status, answer = await submit(control, raw, media_type)
        assert status == 400
        assert answer["error"]["details"][0]["message"].startswith(message), answer
    twice = (json.dumps(bundle())[:-1] + ',"verdict":"PASSED"}').encode()
    envelope = dsse.encode(dsse.sign(twice, dsse.BUNDLE_TYPE, KEY, "k"))
    for raw, media_type, path in (
        (twice, "application/json", "body.verdict"),
        (envelope, dsse.ENVELOPE_TYPE, "body.payload.verdict"),
    ):
        status, answer = await submit(control, raw, media_type)
        assert (status, faults(answer)) == (400, [(path, "repeated")])


async def test_hostile_envelopes(control: Control) -> None:
    """None of them is stored, and what they hold is not looked at: the message is about the signature."""
    await register(control)
    made = bundle()
    good = signed(made)
    raw = json.dumps(made).encode()
    confused = json.loads(good) | {"payloadType": dsse.STATEMENT_MEDIA_TYPE}
    garbage = dsse.sign(b"no json", dsse.BUNDLE_TYPE, STRANGER, "k")
    for envelope in (
        changed_payload(good, made | {"billable": False}),
        changed_payload(good, json.loads(json.dumps(made, sort_keys=True))),  # re-encoded
        json.dumps(confused).encode(),
        signed(made, STRANGER),
        signed(made, STRANGER, dsse.default_key_id(KEY.public_key())),
        dsse.encode(garbage),
        dsse.encode(dsse.Envelope(raw, dsse.BUNDLE_TYPE, (dsse.Signature("AAAA", "k"),) * 16)),
    ):
        status, answer = await submit(control, envelope)
        assert status == 400
        assert faults(answer) == [("body.signatures", "not_verified")]
    assert await count(control) == 0
    both = dsse.parse(good)
    both = both._replace(signatures=(*dsse.sign(raw, dsse.BUNDLE_TYPE, STRANGER, "x").signatures, *both.signatures))
    assert (await submit(control, dsse.encode(both)))[0] == 201, "of two signatures one is enough"


async def test_further_fields_of_an_envelope_are_ignored(control: Control) -> None:
    """As DSSE 1.0.2 has it; a key that is there twice is refused everywhere."""
    await register(control)
    envelope = json.loads(signed(bundle()))
    envelope["note"] = {"a": [1]}
    envelope["signatures"][0] |= {"keyid": None, "extension": {"kind": "k", "ext": {}}}
    raw = json.dumps(envelope).encode()
    status, stored = await submit(control, raw)
    assert (status, stored["signature"]["verified"]) == (201, True)
    status, shown, _ = await control.call("GET", f"{BUNDLES}/{stored['bundleId']}")
    assert (status, shown["bundle"]["bundleId"]) == (200, stored["bundleId"])
    status, answer = await submit(control, raw.replace(b'"note": {', b'"note": {"a": 2, ', 1))
    assert (status, answer["error"]["details"]) == (
        400,
        [{"path": "body", "message": "The JSON key 'note.a' is repeated.", "code": "malformed"}],
    )
    envelope["note"] = [[]] * MAX_CONTAINERS
    status, answer = await submit(control, json.dumps(envelope).encode())
    assert (status, answer["error"]["code"]) == (413, "payload_too_large")


async def test_keys_of_other_organizations_count_nothing(control: Control) -> None:
    await register(control)
    made = bundle(subject={"orgSlug": "globex"})
    path = BUNDLES.replace("acme", "globex")
    status, answer = await submit(control, signed(made), token=control.globex.token.secret, path=path)
    assert (status, answer["error"]["details"][0]["code"]) == (400, "not_verified")
    assert (await submit(control, made, token=control.globex.token.secret, path=path))[0] == 201
    assert (await submit(control, made, path=path))[0] == 404
    assert (await control.call("GET", f"{path}/{made['bundleId']}"))[0] == 404


async def test_keys_count_while_they_are_valid(control: Control) -> None:
    """At the time of issue, which the signer may have made up, and when the bundle is handed in."""
    at = "2026-11-20T15:17:03Z"
    for key, issued_at, reason in (
        ({"issuer": "https://other.example.com"}, at, "belongs to the issuer https://other.example.com"),
        ({"validFrom": "2026-11-20T15:17:03.001Z"}, at, "is valid from 2026-11-20T15:17:03.001Z"),
        ({"validUntil": at}, at, f"is valid from 2026-01-01T00:00:00Z until {at}"),
        ({"validUntil": "2026-11-21T00:00:00Z"}, at, "until 2026-11-21T00:00:00Z, not at 20"),
        ({}, "2026-02-30T00:00:00Z", "is not a valid time"),
    ):
        signer = Ed25519PrivateKey.generate()
        await register(control, signer, **key)
        status, answer = await submit(control, signed(bundle(issuedAt=issued_at), signer))
        detail = answer["error"]["details"][0]
        assert (status, detail["code"]) == (400, "not_verified")
        assert reason in detail["message"]
    await register(control)
    assert (await submit(control, signed(bundle(issuedAt=at))))[0] == 201


async def test_rotation_and_revocation(control: Control) -> None:
    old, new_key = await register(control, keyId="2025"), Ed25519PrivateKey.generate()
    new = await register(control, new_key, keyId="2026")
    first, second = signed(bundle()), signed(bundle(), new_key)
    assert (await submit(control, first))[1]["signature"]["keyId"] == "2025"
    assert (await submit(control, second))[1]["signature"]["keyId"] == "2026"
    named = bundle()
    named["issuer"] = named["issuer"] | {"keyId": "2025"}
    status, answer = await submit(control, signed(named, new_key))
    message = "Not verified: the bundle names the key 2025, not 2026."
    assert (status, answer["error"]["details"][0]["message"]) == (400, message)
    assert (await control.call("POST", f"{ISSUERS}/{old['id']}/revoke", {"reason": "Lost."}))[0] == 200
    assert (await submit(control, signed(bundle())))[0] == 400
    status, answer = await submit(control, first)
    assert (status, answer["signature"]["keyStatus"]) == (200, "REVOKED"), "what was taken stays taken"
    assert (await get(control, BUNDLES, verified="true"))["data"][0]["signature"]["issuerKeyId"] == new["id"]
    # Whoever has stolen the old key must not keep the new one out: of two signers one that counts is enough.
    raw = json.dumps(bundle()).encode()
    signatures = [
        dsse.sign(raw, dsse.BUNDLE_TYPE, key, key_id).signatures[0] for key, key_id in ((KEY, "2025"), (new_key, ""))
    ]
    for order in (signatures, signatures[::-1]):
        envelope = dsse.encode(dsse.Envelope(raw, dsse.BUNDLE_TYPE, tuple(order)))
        assert (await validate(control, envelope))["signature"]["keyId"] == "2026"
    only_old = dsse.encode(dsse.Envelope(raw, dsse.BUNDLE_TYPE, tuple(signatures[:1])))
    assert "was revoked" in (await validate(control, only_old))["errors"][0]["message"]


async def test_bodies_that_come_slowly_keep_nobody_out(control: Control) -> None:
    """Those of one principal at once have a bound of their own; others hand in meanwhile."""
    _, viewer = await new_member_token(control.checks.database, control.acme, Role.VIEWER)
    host, port = str(control.client.host), control.client.port
    head = f"POST {BUNDLES}/validate HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {viewer}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {4 * 2**20}\r\n\r\n"
    slow = [await asyncio.open_connection(host, port) for _ in range(6)]
    try:
        for _, writer in slow:
            writer.write(head.encode() + b" " * (4 * 2**20 - 1))
        answers = [asyncio.create_task(reader.readline()) for reader, _ in slow]
        refused, holding = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert {one.result() for one in refused} == {b"HTTP/1.1 429 Too Many Requests\r\n"}
        assert (await submit(control, bundle()))[0] == 201
        assert holding
        for one in holding:
            one.cancel()
    finally:
        for _, writer in slow:
            writer.transport.abort()


async def test_validating_stores_nothing_and_finds_the_same(control: Control) -> None:
    await register(control)
    contradicting = bundle([claim("suite_green", "c", {"passed": False, "testsFailed": 0})])
    plain, verified = await validate(control, contradicting), await validate(control, signed(contradicting))
    for found, is_verified in ((plain, False), (verified, True)):
        assert (found["valid"], found["signature"]["verified"]) == (False, is_verified)
        assert [one["path"] for one in found["errors"]] == ["claims[0].evidence.passed"]
    assert await count(control) == 0
    assert (await validate(control, bundle()))["valid"] is True
    unknown = await validate(control, signed(bundle(), STRANGER))
    assert (unknown["valid"], unknown["signature"]) == (False, None)
    assert unknown["errors"][0]["code"] == "not_verified"
    _, stored = await submit(control, contradicting)
    assert (stored["errors"], stored["warnings"]) == (plain["errors"], plain["warnings"])


async def test_bodies_have_a_size_a_type_and_no_coding(control: Control) -> None:
    large = json.dumps(bundle(specUri="x" * 300)).encode().ljust(4 * 2**20)
    status, stored = await submit(control, large, "application/json")
    assert (status, stored["sizeBytes"]) == (201, 4 * 2**20)
    assert (await submit(control, large + b" ", "application/json"))[0] == 413
    assert (await submit(control, b"{}", "text/plain"))[0] == 415
    assert (await submit(control, b"{}", "application/json", headers={"Content-Encoding": "gzip"}))[0] == 415
    status, answer, _ = await control.call("POST", f"{BUNDLES}?signed=true", bundle())
    assert (status, answer["error"]["details"][0]["path"]) == (400, "query.signed")


async def test_objects_and_lists_are_counted_before_memory_is_spent_on_them(control: Control) -> None:
    def made(number: int) -> dict[str, Any]:
        return statement(bundle(), subject=[{"uri": "x", "annotations": {"a": [[]] * number}}])

    assert (await submit(control, made(MAX_CONTAINERS - 100), dsse.STATEMENT_MEDIA_TYPE))[0] == 201
    status, answer = await submit(control, made(MAX_CONTAINERS), dsse.STATEMENT_MEDIA_TYPE)
    assert (status, answer["error"]["message"]) == (413, "The proof bundle has more than 100000 objects and lists.")


@pytest.mark.both_stores
async def test_any_character_is_kept(control: Control) -> None:
    odd = "\u0000\u202e\U0001f600 'x'; --"
    made = bundle(subject={"title": odd, "runId": odd, "commit": odd, "proposalId": odd, "issueShortId": odd})
    made["issuer"] = made["issuer"] | {"id": odd, "name": odd}
    status, stored = await submit(control, made)
    assert (status, stored["title"]) == (201, odd.replace("\0", "\ufffd"))
    assert (await get(control, f"{BUNDLES}/{made['bundleId']}"))["bundle"] == made


SIZE = len(json.dumps(bundle()))


@pytest.mark.control_settings(proof_max_bytes=2 * SIZE + 10)
async def test_an_organization_has_a_maximum(control: Control) -> None:
    first = bundle()
    assert (await submit(control, first))[0] == 201
    status, answer = await submit(control, bundle())
    message = (
        f"With this bundle, the unsigned bundles of the organization would exceed their limit of {SIZE + 5} bytes."
    )
    assert (status, answer["error"]["message"]) == (409, message)
    assert (await submit(control, first))[0] == 200
    await register(control)
    assert (await submit(control, signed(bundle(specUri="x" * 300))))[0] == 409
    path = BUNDLES.replace("acme", "globex")
    other = bundle(subject={"orgSlug": "globex"}, specUri="")
    assert (await submit(control, other, token=control.globex.token.secret, path=path))[0] == 201


async def test_every_change_is_in_the_audit_log(control: Control) -> None:
    key = await register(control)
    _, stored = await submit(control, signed(bundle()))
    await submit(control, bundle())
    events = (await get(control, "/orgs/acme/audit"))["data"]
    found = {(one["action"], one["objectId"]): one["data"] for one in events}
    assert found["proof.submit", stored["id"]] == {
        "bundleId": stored["bundleId"],
        "digest": stored["digest"].removeprefix("sha256:"),
        "keyId": key["keyId"],
        "tier": "A",
        "verdict": "PASSED",
        "billable": True,
        "issueId": None,
        "errors": 0,
    }
    assert ("proof_issuer.create", key["id"]) in found
