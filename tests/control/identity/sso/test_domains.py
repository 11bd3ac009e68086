"""Domains over HTTP: proven by DNS, for one organization, audited."""

import pytest

from tests.control.conftest import Control
from tests.control.identity.sso.conftest import Records, audit

DOMAINS = "/orgs/acme/sso/domains"


@pytest.mark.both_stores
async def test_a_domain_is_proven_by_its_record(control: Control, records: Records) -> None:
    status, made, _ = await control.call("POST", DOMAINS, {"domain": "Example.COM"})
    assert status == 201
    assert (made["domain"], made["verifiedAt"]) == ("example.com", None)
    assert made["txtRecord"].startswith("sluice-domain=")
    one = f"{DOMAINS}/{made['id']}"
    records.known["example.com"] = ["v=spf1 -all", made["txtRecord"] + "x"]
    status, body, _ = await control.call("POST", f"{one}/verify")
    assert (status, body["error"]["code"]) == (409, "conflict")
    assert made["txtRecord"] in body["error"]["message"]
    records.known["example.com"].append(made["txtRecord"])
    status, verified, _ = await control.call("POST", f"{one}/verify")
    assert status == 200
    assert verified | {"verifiedAt": None} == made
    records.known.clear()
    assert (await control.call("POST", f"{one}/verify"))[:2] == (200, verified)
    assert (await control.call("GET", DOMAINS))[1] == {"data": [verified]}
    assert (await control.call("POST", DOMAINS, {"domain": "example.com"}))[0] == 409
    assert (await control.call("DELETE", one))[0] == 204
    assert (await control.call("DELETE", one))[0] == 404
    assert await audit(control, "sso.domain") == [
        ("sso.domain.add", {"domain": "example.com"}),
        ("sso.domain.verify", {"domain": "example.com", "by": "dns"}),
        ("sso.domain.remove", {"domain": "example.com", "verified": True}),
    ]


@pytest.mark.both_stores
async def test_a_domain_belongs_to_one_organization(control: Control, records: Records) -> None:
    made = []
    for org, tenant in (("acme", control.acme), ("globex", control.globex)):
        status, body, _ = await control.call(
            "POST", f"/orgs/{org}/sso/domains", {"domain": "example.com"}, tenant.token.secret
        )
        assert status == 201
        records.known.setdefault("example.com", []).append(body["txtRecord"])
        made.append((f"/orgs/{org}/sso/domains/{body['id']}/verify", tenant.token.secret))
    assert [(await control.call("POST", path, token=token))[0] for path, token in made] == [200, 409]
    assert (await control.call("POST", made[0][0], token=control.globex.token.secret))[0] == 404


async def test_what_is_no_domain_is_named(control: Control) -> None:
    for domain in ("", "com", "a b.com", "-a.com", "a..com", "exämple.com", "x" * 254, "a.com.", 1, None):
        status, body, _ = await control.call("POST", DOMAINS, {"domain": domain})
        assert (status, body["error"]["details"][0]["path"]) == (400, "body.domain"), domain


async def test_an_organization_has_so_many(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.identity.sso.domains.MAX_DOMAINS", 2)
    for number in range(3):
        status, _, _ = await control.call("POST", DOMAINS, {"domain": f"d{number}.example.com"})
        assert status == (201 if number < 2 else 409)
