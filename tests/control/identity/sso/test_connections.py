"""Connections over HTTP: every field, null and absence; what is refused; who may; the audit log.

Dry runs say what a login would do, and the login does it.
"""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
import sqlalchemy as sa
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from control.identity.sso.tables import sso_connections, sso_identities
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson
from tests.control.identity.sso.conftest import Records, SamlProvider, audit, prove, refusals
from tests.control.identity.sso.saml_idp import certificate_pem as certificate
from tests.control.identity.sso.saml_idp import ec_key, rsa_key

CONNECTIONS: Final = "/orgs/acme/sso/connections"
SAML: Final = {"idpEntityId": "https://idp.example.com/metadata", "idpSsoUrl": "https://idp.example.com/sso?tenant=1"}
OIDC: Final = {"oidcIssuer": "https://idp.example.com/realms/acme", "oidcClientId": "sluice"}
NOTHING: Final = {
    "enabled": False,
    "enforced": False,
    "defaultRole": "VIEWER",
    "attributeMapping": None,
    "roleMapping": None,
    "idpEntityId": None,
    "idpSsoUrl": None,
    "idpCertificateConfigured": False,
    "idpCertificateAlternateCount": 0,
    "oidcIssuer": None,
    "oidcClientId": None,
    "oidcClientSecretConfigured": False,
    "oidcScopes": ["openid", "email", "profile"],
}


async def put(control: Control, protocol: str, **fields: Any) -> tuple[int, Any]:
    status, body, _ = await control.call("PUT", f"{CONNECTIONS}/{protocol}", fields)
    return status, body


async def put_ok(control: Control, protocol: str, **fields: Any) -> Any:
    status, body = await put(control, protocol, **fields)
    assert status == 200, body
    return body


@pytest.mark.both_stores
async def test_a_connection_has_the_fields_of_the_specification(control: Control) -> None:
    assert (await control.call("GET", CONNECTIONS))[:2] == (200, {"connections": []})
    made = await put_ok(control, "SAML")
    assert made | {"id": "", "createdAt": "", "updatedAt": ""} == NOTHING | {
        "id": "",
        "orgId": control.acme.organization.id,
        "protocol": "SAML",
        "createdAt": "",
        "updatedAt": "",
    }
    changed = await put_ok(
        control,
        "SAML",
        **SAML,
        enabled=True,
        defaultRole="MEMBER",
        attributeMapping={"email": "mail", "groups": ["groups", "roles"]},
        roleMapping={"platform": "ADMIN", "money": "BILLING"},
        idpCertificate=certificate(rsa_key()),
        idpCertificateAlternates=[certificate(ec_key(1)), certificate(ec_key())],
    )
    assert changed == made | SAML | {
        "enabled": True,
        "defaultRole": "MEMBER",
        "attributeMapping": {"email": "mail", "groups": ["groups", "roles"]},
        "roleMapping": {"platform": "ADMIN", "money": "BILLING"},
        "idpCertificateConfigured": True,
        "idpCertificateAlternateCount": 2,
        "updatedAt": changed["updatedAt"],
    }
    oidc = await put_ok(
        control, "OIDC", **OIDC, enabled=True, oidcClientSecret="s3cret-of-client", oidcScopes=["openid", "groups"]
    )
    assert (oidc["oidcClientSecretConfigured"], oidc["oidcScopes"]) == (True, ["openid", "groups"])
    assert (await control.call("GET", CONNECTIONS))[:2] == (200, {"connections": [oidc, changed]})
    assert (await control.call("DELETE", f"{CONNECTIONS}/OIDC"))[:2] == (200, {"deleted": True})
    assert (await control.call("DELETE", f"{CONNECTIONS}/OIDC"))[0] == 404
    assert (await control.call("GET", CONNECTIONS))[1] == {"connections": [changed]}


async def test_null_clears_and_an_absent_field_stays(control: Control) -> None:
    before = await put_ok(
        control,
        "SAML",
        **SAML,
        roleMapping={"a": "MEMBER"},
        attributeMapping={"name": "cn"},
        idpCertificate=certificate(rsa_key()),
        idpCertificateAlternates=[certificate(rsa_key())],
    )
    assert await put_ok(control, "SAML", defaultRole="BILLING") == before | {
        "defaultRole": "BILLING",
        "updatedAt": (await control.call("GET", CONNECTIONS))[1]["connections"][0]["updatedAt"],
    }
    cleared = await put_ok(
        control,
        "SAML",
        roleMapping=None,
        attributeMapping=None,
        idpEntityId=None,
        idpSsoUrl=None,
        idpCertificate=None,
        idpCertificateAlternates=[],
    )
    assert {name: cleared[name] for name in NOTHING} == NOTHING | {"defaultRole": "BILLING"}
    oidc = await put_ok(control, "OIDC", **OIDC, oidcClientSecret="s3cret")
    oidc = await put_ok(control, "OIDC", oidcIssuer=None, oidcClientId=None, oidcClientSecret=None)
    assert {name: oidc[name] for name in NOTHING} == NOTHING


async def test_what_is_not_valid_is_named(control: Control) -> None:
    invalid: tuple[tuple[dict[str, Any], str], ...] = (
        ({"enabled": "yes"}, "body.enabled"),
        ({"enabled": None}, "body.enabled"),
        ({"defaultRole": "OWNER"}, "body.defaultRole"),
        ({"defaultRole": None}, "body.defaultRole"),
        ({"roleMapping": {"a": "OWNER"}}, "body.roleMapping.a"),
        ({"attributeMapping": {"subject": "mail"}}, "body.attributeMapping"),
        ({"attributeMapping": {"email": []}}, "body.attributeMapping.email"),
        ({"attributeMapping": {"email": 1}}, "body.attributeMapping.email"),
        *(
            ({"idpSsoUrl": url}, "body.idpSsoUrl")
            for url in (
                *("http://idp.example.com/", "javascript:alert(1)", "https://user:pw@idp.example.com/"),
                "https://idp.example.com/#x",
            )
        ),
        *(
            ({"oidcIssuer": url}, "body.oidcIssuer")
            for url in (
                *("http://idp.example.com", "https://idp.example.com?x=1", "https://idp.example.com?"),
                "idp.example.com",
            )
        ),
        ({"oidcScopes": ["email"]}, "body.oidcScopes"),
        ({"oidcScopes": []}, "body.oidcScopes"),
        ({"oidcScopes": ["openid", "a b"]}, "body.oidcScopes[1]"),
        ({"oidcScopes": None}, "body.oidcScopes"),
        ({"idpCertificate": "no certificate"}, "body.idpCertificate"),
        ({"idpCertificate": certificate(rsa_key(0, 1_024))}, "body.idpCertificate"),
        ({"idpCertificate": certificate(rsa_key()) + certificate(rsa_key())}, "body.idpCertificate"),
        ({"idpCertificateAlternates": ["x"]}, "body.idpCertificateAlternates[0]"),
        ({"idpCertificateAlternates": ["x"] * 4}, "body.idpCertificateAlternates"),
        ({"idpCertificateAlternates": None}, "body.idpCertificateAlternates"),
        ({"idpEntityId": ""}, "body.idpEntityId"),
        ({"idpEntityId": "x" * 1025}, "body.idpEntityId"),
        ({"oidcClientId": ""}, "body.oidcClientId"),
        ({"certificate": "x"}, "body.certificate"),
        ({"idpEntityId": "a\0b"}, "body.idpEntityId"),
        ({"oidcClientId": "a\0b"}, "body.oidcClientId"),
    )
    for fields, path in invalid:
        status, body = await put(control, "SAML", **fields)
        assert (status, body["error"]["code"]) == (400, "bad_request")
        assert [each["path"] for each in body["error"]["details"]][:1] == [path], body
    assert (await control.call("GET", CONNECTIONS))[1] == {"connections": []}


async def test_several_faults_are_named_at_once(control: Control) -> None:
    status, body = await put(control, "OIDC", enabled=1, oidcIssuer="x", idpCertificate="y", oidcScopes=["a"])
    assert status == 400
    assert {each["path"] for each in body["error"]["details"]} == {
        "body.enabled", "body.oidcIssuer", "body.idpCertificate", "body.oidcScopes"
    }  # fmt: skip
    assert (await control.call("PUT", f"{CONNECTIONS}/saml", {}))[0] == 400


async def test_what_could_not_work_or_would_lock_everybody_out_is_a_conflict(control: Control) -> None:
    async def conflict(protocol: str, **fields: Any) -> str:
        status, body = await put(control, protocol, **fields)
        assert (status, body["error"]["code"]) == (409, "conflict"), body
        message: str = body["error"]["message"]
        return message

    assert await conflict("SAML", enabled=True) == (
        "An enabled SAML connection needs idpEntityId, idpSsoUrl, idpCertificate."
    )
    assert await conflict("OIDC", enabled=True, oidcIssuer="https://idp.example.com") == (
        "An enabled OIDC connection needs oidcClientId."
    )
    await put_ok(control, "OIDC", **OIDC)
    assert "not enabled" in await conflict("OIDC", enforced=True)
    assert "No user has logged in" in await conflict("OIDC", enabled=True, enforced=True)
    await put_ok(control, "OIDC", enabled=True)
    assert "needs oidcClientId" in await conflict("OIDC", oidcClientId=None)
    await control.execute(sso_connections.update().values(tested_at=datetime.now(UTC)))
    assert "No owner has a password" in await conflict("OIDC", enforced=True)


async def test_secrets_are_encrypted_and_in_no_answer(control: Control) -> None:
    pem = certificate(rsa_key())
    await put_ok(control, "SAML", **SAML, idpCertificate=pem, idpCertificateAlternates=[pem])
    await put_ok(control, "OIDC", **OIDC, oidcClientSecret="s3cret-of-client")
    async with control.checks.database.read() as connection:
        rows = (await connection.execute(sa.select(sso_connections))).mappings().all()
    stored = [value for row in rows for value in row.values() if isinstance(value, bytes)]
    assert stored
    assert not any(b"CERTIFICATE" in value for value in stored)
    text = repr(await control.call("GET", CONNECTIONS)) + repr(await audit(control, "sso")) + repr(rows)
    assert "s3cret-of-client" not in text
    assert "BEGIN" not in text


async def test_every_change_is_in_the_audit_log(control: Control) -> None:
    await put_ok(control, "OIDC", **OIDC, oidcClientSecret="s3cret")
    await put_ok(control, "OIDC", enabled=True, oidcClientId="other")
    await control.call("DELETE", f"{CONNECTIONS}/OIDC")
    common = {"protocol": "OIDC", "enforced": False}
    state = common | {"defaultRole": "VIEWER"}
    made = OIDC | {"enabled": False, "fields": ["oidcIssuer", "oidcClientId", "oidcClientSecret"]}
    updated = {"enabled": True, "fields": ["enabled", "oidcClientId"], "oidcClientId": "other", "otherProvider": True}
    assert await audit(control, "sso") == [
        ("sso.connection.create", state | made),
        ("sso.connection.update", state | updated),
        ("sso.connection.delete", common),
    ]


async def test_the_audit_log_names_certificates_by_their_fingerprints(control: Control) -> None:
    parsed = [x509.load_pem_x509_certificate(certificate(key).encode()) for key in (rsa_key(), ec_key(1))]
    names = [each.fingerprint(hashes.SHA256()).hex() for each in parsed]
    await put_ok(control, "SAML", idpCertificate=certificate(rsa_key()))
    await put_ok(control, "SAML", idpCertificate=None, idpCertificateAlternates=[certificate(ec_key(1))])
    said = [{name: data[name] for name in data if "Certificate" in name} for _, data in await audit(control, "sso")]
    assert said == [{"idpCertificate": names[0]}, {"idpCertificate": "", "idpCertificateAlternates": [names[1]]}]


async def test_administrators_configure_and_others_do_not(control: Control) -> None:
    tokens = {
        role: (await new_member_token(control.checks.database, control.acme, role))[1]
        for role in (Role.VIEWER, Role.BILLING, Role.MEMBER, Role.ADMIN)
    }
    for role, token in tokens.items():
        may = role is Role.ADMIN
        assert (await control.call("GET", CONNECTIONS, token=token))[0] == (200 if may else 403)
        assert (await control.call("PUT", f"{CONNECTIONS}/OIDC", OIDC, token))[0] == (200 if may else 403)
        assert (await control.call("DELETE", f"{CONNECTIONS}/OIDC", token=token))[0] == (200 if may else 403)


async def test_no_agent_configures_who_its_owner_is(control: Control) -> None:
    principals, scopes = "/orgs/acme/principals", ["sso:read", "sso:write"]
    _, agent, _ = await control.call("POST", principals, {"kind": "agent", "name": "Bot", "role": "ADMIN"})
    path = f"{principals}/{agent['principalId']}/tokens"
    token = (await control.call("POST", path, {"name": "t", "scopes": scopes}))[1]["token"]
    assert (await control.call("GET", CONNECTIONS, token=token))[0] == 200
    assert (await control.call("PUT", f"{CONNECTIONS}/OIDC", OIDC, token))[0] == 403
    assert (await control.call("DELETE", f"{CONNECTIONS}/OIDC", token=token))[0] == 403


DRY_RUN = "/orgs/acme/sso/connections/SAML/dry-run"


async def said(control: Control, email: str = "ada@example.com", **more: Any) -> Any:
    attributes = {"email": email, "name": "Ada", "groups": ["dev", "x"]}
    status, body, _ = await control.call("POST", DRY_RUN, {"attributes": attributes, **more})
    assert status == 200, body
    return body


async def test_a_dry_run_says_what_a_login_does(
    saml: SamlProvider, control: Control, person: NewPerson, records: Records
) -> None:
    await saml.connect(roleMapping={"dev": "MEMBER"})
    assert await said(control) == {
        "account": "CREATED",
        "reason": None,
        "detail": None,
        "email": "ada@example.com",
        "name": "Ada",
        "groups": ["dev", "x"],
        "role": "MEMBER",
    }
    assert await control.count(sso_identities) == 0
    assert (await saml.log_in(groups=("dev",)))[1]["role"] == "MEMBER"
    assert (await said(control, subject="ada-1"))["account"] == "KNOWN"
    refused = await said(control, subject="ada-2")
    assert (refused["account"], refused["reason"]) == ("REFUSED", "account_exists")
    await person("bob@example.com")
    assert (await said(control, "bob@example.com"))["reason"] == "account_exists"
    await prove(control, records)
    assert (await said(control, "bob@example.com"))["account"] == "LINKED"
    assert (await said(control, subject="ada-2"))["reason"] == "account_linked"
    await saml.log_in(subject="ada-2")
    assert await refusals(control) == ["account_linked"]
    assert (await said(control, "no address"))["reason"] == "email_invalid"


async def test_who_may_ask(saml: SamlProvider, control: Control) -> None:
    del saml
    body: dict[str, Any] = {"attributes": {}}
    for role, status in ((Role.ADMIN, 200), (Role.MEMBER, 403)):
        _, token = await new_member_token(control.checks.database, control.acme, role)
        assert (await control.call("POST", DRY_RUN, body, token))[0] == status
    assert (await control.call("POST", DRY_RUN.replace("SAML", "OIDC"), body))[0] == 404
    assert (await control.call("POST", DRY_RUN.replace("SAML", "LDAP"), body))[0] == 400
    assert (await control.call("POST", DRY_RUN, {"attributes": {}, "more": 1}))[0] == 400


async def test_the_detail_says_why_an_address_does_not_suffice(
    saml: SamlProvider, control: Control, person: NewPerson, records: Records
) -> None:
    del saml
    await person("olga@example.com", role="OWNER")
    await person("bob@example.com")
    assert "has to prove the domain" in (await said(control, "bob@example.com"))["detail"]
    assert "belongs to an owner" in (await said(control, "olga@example.com"))["detail"]
    await prove(control, records)
    assert "belongs to an owner" in (await said(control, "olga@example.com"))["detail"]
    oidc = {"oidcIssuer": "https://idp.example.com", "oidcClientId": "sluice"}
    assert (await control.call("PUT", "/orgs/acme/sso/connections/OIDC", oidc))[0] == 200
    body = {"attributes": {"email": "bob@example.com"}}
    _, refused, _ = await control.call("POST", DRY_RUN.replace("SAML", "OIDC"), body)
    assert "does not confirm that it has verified the address" in refused["detail"]
    verified = {"attributes": {"email": "bob@example.com", "email_verified": True}}
    assert (await control.call("POST", DRY_RUN.replace("SAML", "OIDC"), verified))[1]["account"] == "LINKED"
