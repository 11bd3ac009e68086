"""What Sluice sends: the request in a URL, and its metadata."""

import base64
import zlib
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import parse_qsl, urlsplit

import pytest
from lxml import etree

from control.identity.sso.saml.document import METADATA, SAML, SAMLP
from control.identity.sso.saml.service_provider import build_metadata, new_request_id, redirect_url
from tests.control.identity.sso.saml_idp import ACS, SP

INSTANT = datetime(2026, 11, 20, 15, 0, 30, 999_999, tzinfo=UTC)


def redirect(idp_sso_url: str = "https://idp.example.com/sso", **changes: object) -> str:
    parameters = {
        "request_id": "_r1", "issue_instant": INSTANT, "issuer": SP, "acs_url": ACS, "relay_state": "key/+&=1",
    }  # fmt: skip
    return redirect_url(idp_sso_url, **{**parameters, **changes})  # type: ignore[arg-type]


def inflated(url: str) -> etree._Element:
    (request,) = (value for name, value in parse_qsl(urlsplit(url).query) if name == "SAMLRequest")
    return etree.fromstring(zlib.decompress(base64.b64decode(request, validate=True), wbits=-15))


def test_the_request_is_in_the_url() -> None:
    url = redirect()
    assert url.startswith("https://idp.example.com/sso?SAMLRequest=")
    assert [name for name, _ in parse_qsl(urlsplit(url).query)] == ["SAMLRequest", "RelayState"]
    assert dict(parse_qsl(urlsplit(url).query))["RelayState"] == "key/+&=1"
    assert "+" not in url  # some providers read it as itself, others as a space
    request = inflated(url)
    assert request.tag == f"{{{SAMLP}}}AuthnRequest"
    assert dict(request.attrib.items()) == {
        "ID": "_r1",
        "Version": "2.0",
        "IssueInstant": "2026-11-20T15:00:30Z",
        "Destination": "https://idp.example.com/sso",
        "AssertionConsumerServiceURL": ACS,
        "ProtocolBinding": "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST",
    }
    issuer, policy = request
    assert (issuer.tag, issuer.text) == (f"{{{SAML}}}Issuer", SP)
    assert (policy.tag, dict(policy.attrib.items())) == (f"{{{SAMLP}}}NameIDPolicy", {"AllowCreate": "true"})


def test_the_query_of_the_provider_stays() -> None:
    for given, kept in {
        "/sso?tenant=a%20b": "/sso?tenant=a%20b&",
        "/sso?": "/sso?",
        "/sso?a=b&": "/sso?a=b&",
        "/sso#part": "/sso?",
        "": "?",
    }.items():
        url = redirect(f"https://idp.example.com{given}")
        assert url.startswith(f"https://idp.example.com{kept}SAMLRequest="), given


def test_the_instant_is_in_utc() -> None:
    local = INSTANT.astimezone(timezone(timedelta(hours=5)))
    assert inflated(redirect(issue_instant=local)).get("IssueInstant") == "2026-11-20T15:00:30Z"
    with pytest.raises(ValueError, match="time zone"):
        redirect(issue_instant=INSTANT.replace(tzinfo=None))


def test_the_relay_state_has_at_most_80_bytes() -> None:
    redirect(relay_state="x" * 80)
    for state in ("x" * 81, "ä" * 41):
        with pytest.raises(ValueError, match="80 bytes"):
            redirect(relay_state=state)


def test_what_tenants_write_stays_text() -> None:
    url = 'https://idp.example.com/sso?a="<x/>&b=\u00e4'
    request = inflated(redirect(url, issuer="https://a.example.com/<&>"))
    assert request.get("Destination") == url
    assert request.findtext(f"{{{SAML}}}Issuer") == "https://a.example.com/<&>"


def test_request_ids_are_names_that_do_not_repeat() -> None:
    ids = {new_request_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(each) == 41 and each[0] == "_" and int(each[1:], 16) >= 0 for each in ids)


def test_the_metadata() -> None:
    metadata = build_metadata(SP, ACS)
    assert metadata.startswith(b"<?xml version='1.0' encoding='UTF-8'?>\n")
    entity = etree.fromstring(metadata)
    assert (entity.tag, dict(entity.attrib.items())) == (f"{{{METADATA}}}EntityDescriptor", {"entityID": SP})
    (provider,) = entity
    assert provider.tag == f"{{{METADATA}}}SPSSODescriptor"
    assert dict(provider.attrib.items()) == {
        "AuthnRequestsSigned": "false",
        "WantAssertionsSigned": "true",
        "protocolSupportEnumeration": SAMLP,
    }
    assert [(each.tag, each.text, dict(each.attrib.items())) for each in provider] == [
        (f"{{{METADATA}}}NameIDFormat", "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", {}),
        (f"{{{METADATA}}}NameIDFormat", "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress", {}),
        (
            f"{{{METADATA}}}AssertionConsumerService",
            None,
            {
                "Binding": "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST",
                "Location": ACS,
                "index": "0",
                "isDefault": "true",
            },
        ),
    ]
