"""Responses that are believed, as providers send them, and what is read of them."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from signxml.algorithms import CanonicalizationMethod as Canonicalization
from signxml.algorithms import DigestAlgorithm, SignatureMethod

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.document import MAX_BYTES
from control.identity.sso.saml.response import Assertion, ExpectedResponse, verify_response
from tests.control.identity.sso.saml_idp import (
    ACS,
    AUTHN_CONTEXT,
    IDP,
    NOW,
    REQUEST,
    SP,
    Idp,
    Signed,
    certificate,
    ec_key,
    expected,
    find,
    instant,
    login,
    login_confirmed_by,
    post,
    rsa_key,
    sign,
)

HOLDER_OF_KEY = "urn:oasis:names:tc:SAML:2.0:cm:holder-of-key"
OTHER = "https://other.example.com/acs"
GOOD = Assertion(
    id="_assertion1",
    subject="alice@example.com",
    subject_format="urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress",
    attributes={"email": ["alice@example.com"], "groups": ["staff", "admins"]},
    authn_context=AUTHN_CONTEXT,
    session_not_on_or_after=NOW + timedelta(hours=8),
    not_on_or_after=NOW + timedelta(seconds=300 + 60),
)


Case = tuple[etree._Element, ExpectedResponse]


def signed(what_is_expected: ExpectedResponse | None = None, /, place: Signed = "assertion", **options: Any) -> Case:
    """The good response, signed in some way, and what is expected, which is the usual unless it is given."""
    return sign(Idp().response(), place, **options), what_is_expected or expected()


def saying(**changes: Any) -> Case:
    """A response that says something else, and means the same."""
    return login(**changes), expected()


def with_curve(number: int, curve: type[ec.EllipticCurve], method: SignatureMethod) -> Case:
    key = ec_key(number, curve)
    return signed(expected(certificate(key)), key=key, method=method)


def confirmed(*confirmations: Mapping[str, str | None] | None) -> Case:
    return login_confirmed_by(*confirmations), expected()


BELIEVED: dict[str, Callable[[], Case]] = {
    "the assertion is signed": lambda: signed(place="assertion"),
    "the response is signed": lambda: signed(place="response"),
    "both are signed": lambda: signed(place="both"),
    "both are signed, the assertion by another key": lambda: signed(place="both", assertion_key=rsa_key(1)),
    "no KeyInfo": lambda: signed(key_info=False),
    "a PrefixList, as Okta sends it": lambda: signed(prefixes=["xs"]),
    "a PrefixList with the default namespace": lambda: signed(place="response", prefixes=["#default", "saml", "xs"]),
    "inclusive canonicalization of the assertion": lambda: signed(c14n=Canonicalization.CANONICAL_XML_1_0),
    "inclusive canonicalization of the response": lambda: signed(
        place="response", c14n=Canonicalization.CANONICAL_XML_1_0
    ),
    "canonicalization 1.1": lambda: signed(place="both", c14n=Canonicalization.CANONICAL_XML_1_1),
    "canonicalization that would keep comments": lambda: signed(
        c14n=Canonicalization.EXCLUSIVE_XML_CANONICALIZATION_1_0_WITH_COMMENTS
    ),
    "RSA with SHA-384": lambda: signed(method=SignatureMethod.RSA_SHA384, digest=DigestAlgorithm.SHA384),
    "RSA with SHA-512": lambda: signed(method=SignatureMethod.RSA_SHA512, digest=DigestAlgorithm.SHA512),
    "RSA-PSS": lambda: signed(method=SignatureMethod.SHA256_RSA_MGF1),
    "ECDSA on P-256": lambda: with_curve(0, ec.SECP256R1, SignatureMethod.ECDSA_SHA256),
    "ECDSA on P-384": lambda: with_curve(1, ec.SECP384R1, SignatureMethod.ECDSA_SHA384),
    "ECDSA on P-521": lambda: with_curve(2, ec.SECP521R1, SignatureMethod.ECDSA_SHA512),
    "the key of the last alternate": lambda: signed(
        expected(certificate(rsa_key(1)), certificate(ec_key()), certificate(ec_key(1, ec.SECP384R1)), certificate())
    ),
    "the pinned certificate has expired": lambda: signed(expected(certificate(not_after=NOW - timedelta(days=30)))),
    "the pinned certificate is for issuing others": lambda: signed(expected(certificate(for_issuing=True))),
    "no issuer of the response": lambda: saying(response_issuer=None),
    "no destination": lambda: saying(destination=None),
    "the format of the issuer": lambda: saying(issuer_format="urn:oasis:names:tc:SAML:2.0:nameid-format:entity"),
    "white space around the issuer": lambda: saying(issuer=f"\n  {IDP}\t\r\n", response_issuer=f" {IDP} "),
    "white space around the audience": lambda: saying(audiences=(f"\n    {SP}\n  ",)),
    "a confirmation from some time": lambda: saying(confirmation_not_before=instant(-60)),
    "a confirmation from a minute ahead": lambda: saying(confirmation_not_before=instant(60)),
    "two confirmations of ours": lambda: confirmed({}, {}),
    "a confirmation of another service first": lambda: confirmed({"Recipient": OTHER}, {}),
    "a confirmation of another service last": lambda: confirmed({}, {"Recipient": OTHER}),
    "an expired confirmation beside": lambda: confirmed({"NotOnOrAfter": instant(-300)}, {}),
    "a later confirmation beside": lambda: confirmed({}, {"NotBefore": instant(120)}),
    "a confirmation for ever of another service": lambda: confirmed({"Recipient": OTHER, "NotOnOrAfter": None}, {}),
    "a confirmation of another request beside": lambda: confirmed({"InResponseTo": "_other"}, {}),
    "a confirmation of no request beside": lambda: confirmed({"InResponseTo": None}, {}),
    "a confirmation with a wrong time beside": lambda: confirmed({"NotBefore": "yesterday"}, {}),
    "a confirmation without data beside": lambda: confirmed(None, {}),
    "a confirmation by a key beside": lambda: confirmed({"Method": HOLDER_OF_KEY}, {}),
    "thirty confirmations": lambda: confirmed(*[{"Recipient": OTHER}] * 29, {}),
    "several audiences": lambda: saying(audiences=("https://other.example.com", SP)),
    "one use only, no proxies": lambda: saying(conditions='<saml:OneTimeUse/><saml:ProxyRestriction Count="0"/>'),
}


def test_a_good_response_is_believed() -> None:
    for name, build in BELIEVED.items():
        root, what_is_expected = build()
        assert verify_response(post(root), what_is_expected) == GOOD, name


def test_base64_may_have_line_breaks() -> None:
    encoded = post(login())
    for lines in ("\r\n".join(textwrap.wrap(encoded, 76)) + "\r\n", "\n".join(textwrap.wrap(encoded, 64))):
        assert verify_response(lines, expected()) == GOOD


DOCUMENTS: dict[str, Callable[[bytes], bytes]] = {
    "an XML declaration": lambda xml: b'<?xml version="1.0" encoding="UTF-8"?>\n' + xml,
    "a byte order mark": lambda xml: b"\xef\xbb\xbf<?xml version='1.0' encoding='utf-8'?>" + xml,
    "a CDATA section": lambda xml: xml.replace(b">alice@example.com<", b"><![CDATA[alice@]]>example.com<"),
    "as large as may be": lambda xml: xml.replace(
        b"<samlp:Status>", b"\n" * (MAX_BYTES - len(xml)) + b"<samlp:Status>"
    ),
}


def test_the_document_may_have_other_forms() -> None:
    for name, change in DOCUMENTS.items():
        assert verify_response(post(change(etree.tostring(login()))), expected()) == GOOD, name


def test_attributes_are_read_as_they_are() -> None:
    attributes = (
        ("urn:oid:0.9.2342.19200300.100.1.3", ("älice@example.com", "")),
        ("groups", (" a ", "b & <c>")),
        ("none", ()),
    )
    statements = """<saml:AttributeStatement>
      <saml:Attribute Name="groups"><saml:AttributeValue>c<![CDATA[&d]]></saml:AttributeValue></saml:Attribute>
      <saml:Attribute Name="nil"><saml:AttributeValue xsi:nil="true"/><saml:AttributeValue>x</saml:AttributeValue>
      </saml:Attribute>
      <saml:Attribute Name="element"><saml:AttributeValue><saml:NameID>x</saml:NameID></saml:AttributeValue>
      </saml:Attribute></saml:AttributeStatement>"""
    for place in ("assertion", "response"):
        found = verify_response(post(login(place, attributes=attributes, statements=statements)), expected())
        assert found.attributes == {
            "urn:oid:0.9.2342.19200300.100.1.3": ["älice@example.com", ""],
            "groups": [" a ", "b & <c>", "c&d"],
            "none": [],
            "nil": ["x"],
            "element": [],
        }


def test_the_least_that_a_response_may_say() -> None:
    root = Idp(
        subject="1234", subject_format=None, session_not_on_or_after=None, not_before=None, not_on_or_after=None
    ).response()
    for name in ("saml:AttributeStatement", "saml:AuthnContext"):
        unwanted = find(root, name)
        unwanted.getparent().remove(unwanted)  # type: ignore[union-attr]  # it has one
    assert verify_response(post(sign(root)), expected()) == Assertion(
        id="_assertion1",
        subject="1234",
        subject_format="urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified",
        attributes={},
        authn_context=None,
        session_not_on_or_after=None,
        not_on_or_after=NOW + timedelta(seconds=360),
    )


TIMES = {
    "2026-11-20T15:05:00Z": datetime(2026, 11, 20, 15, 5, tzinfo=UTC),
    "2026-11-20T15:05:00.5Z": datetime(2026, 11, 20, 15, 5, 0, 500_000, tzinfo=UTC),
    "2026-11-20T15:05:00.1234567Z": datetime(2026, 11, 20, 15, 5, 0, 123_456, tzinfo=UTC),
}


def test_times_may_have_fractions() -> None:
    for text, time in TIMES.items():
        found = verify_response(post(login(session_not_on_or_after=text)), expected())
        assert found.session_not_on_or_after == time


CONFIRMATION = st.fixed_dictionaries(
    {},
    optional={
        "Method": st.just(HOLDER_OF_KEY),
        "Recipient": st.sampled_from([OTHER, None]),
        "InResponseTo": st.sampled_from(["_other", None]),
        "NotOnOrAfter": st.sampled_from([instant(-60), instant(-59), instant(200), None]),
        "NotBefore": st.sampled_from([instant(-100), instant(60), instant(61)]),
    },
)


def holds(confirmation: Mapping[str, str | None]) -> bool:
    """Whether it confirms the login at hand, now."""
    wrong = {"Method", "Recipient", "InResponseTo"} & confirmation.keys()
    ends_badly = confirmation.get("NotOnOrAfter", "good") in (None, instant(-60))
    return not wrong and not ends_badly and confirmation.get("NotBefore") != instant(61)


@given(st.lists(CONFIRMATION, max_size=4), st.sampled_from(["assertion", "response"]))
def test_a_subject_is_confirmed_by_one_confirmation_of_this_login(
    confirmations: Sequence[Mapping[str, str | None]], place: Signed
) -> None:
    encoded = post(login_confirmed_by(*confirmations, place=place))
    if any(holds(one) for one in confirmations):
        assert verify_response(encoded, expected()).subject == GOOD.subject
    else:
        with pytest.raises(LoginRefused):
            verify_response(encoded, expected())


def test_an_assertion_is_remembered_for_as_long_as_any_of_its_confirmations_holds() -> None:
    """Also one that holds only later, but none of another service."""
    cases: list[tuple[tuple[dict[str, str | None], ...], float]] = [
        (({"NotOnOrAfter": instant(100)}, {"NotOnOrAfter": instant(500)}), 500),
        (({"NotOnOrAfter": instant(500)}, {"NotOnOrAfter": instant(100)}), 500),
        (({"NotOnOrAfter": instant(100)}, {"NotOnOrAfter": instant(500), "Recipient": OTHER}), 100),
        (({"NotOnOrAfter": instant(100)}, {"NotOnOrAfter": instant(500), "NotBefore": instant(300)}), 500),
        (({"NotOnOrAfter": instant(100)}, {"NotOnOrAfter": instant(900)}), 600),  # the conditions end then
    ]
    for confirmations, seconds in cases:
        found = verify_response(post(login_confirmed_by(*confirmations)), expected())
        assert found.not_on_or_after == NOW + timedelta(seconds=seconds + 60)


def test_an_assertion_is_remembered_until_the_earlier_of_its_ends() -> None:
    for confirmation, conditions in ((300, 600), (600, 300)):
        root = login(confirmation_not_on_or_after=instant(confirmation), not_on_or_after=instant(conditions))
        assert verify_response(post(root), expected()).not_on_or_after == NOW + timedelta(seconds=360)


# What says when, and whether the response is believed so many seconds from NOW. The skew is 60 s.
CLOCKS: list[tuple[str, float, float, str | None]] = [
    ("confirmation_not_on_or_after", 100, 159.999, None),
    ("confirmation_not_on_or_after", 100, 160, "confirmation_expired"),
    ("confirmation_not_before", 100, 40, None),
    ("confirmation_not_before", 100, 39.999, "confirmation_not_yet_valid"),
    ("not_on_or_after", 100, 159.999, None),
    ("not_on_or_after", 100, 160, "conditions_expired"),
    ("not_before", 100, 40, None),
    ("not_before", 100, 39.999, "not_yet_valid"),
    ("session_not_on_or_after", 100, 159.999, None),
    ("session_not_on_or_after", 100, 160, "session_expired"),
    ("confirmation_not_on_or_after", 24 * 3_600 + 600, 600, None),
    ("confirmation_not_on_or_after", 24 * 3_600 + 600, 599, "lifetime_too_long"),
]


def test_clocks_may_differ_by_a_minute() -> None:
    for name, at, now, reason in CLOCKS:
        ends: dict[str, Any] = dict.fromkeys(("not_on_or_after", "session_not_on_or_after"))
        ends["confirmation_not_on_or_after"] = instant(900)
        encoded, when = post(login(**{**ends, name: instant(at)})), expected(now=NOW + timedelta(seconds=now))
        with nullcontext() if reason is None else pytest.raises(LoginRefused, match=f"^{reason}$"):
            verify_response(encoded, when)


def test_a_response_is_of_one_provider_to_one_request_of_one_service() -> None:
    encoded = post(login())
    for change, reason in {
        "idp_entity_id": "issuer_mismatch",
        "sp_entity_id": "audience_mismatch",
        "acs_url": "destination_mismatch",
        "request_id": "in_response_to_mismatch",
    }.items():
        what_is_expected = expected()
        value = getattr(what_is_expected, change)
        for other in (value + "x", value[:-1], value.upper(), ""):
            with pytest.raises(LoginRefused) as refused:
                verify_response(encoded, expected(**{change: other}))
            assert refused.value.reason == reason


def test_what_cannot_be_expected_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="1 to 4 certificates"):
        ExpectedResponse((), IDP, SP, ACS, REQUEST, NOW)
    with pytest.raises(ValueError, match="1 to 4 certificates"):
        ExpectedResponse((certificate(),) * 5, IDP, SP, ACS, REQUEST, NOW)
    with pytest.raises(ValueError, match="time zone"):
        expected(now=NOW.replace(tzinfo=None))
