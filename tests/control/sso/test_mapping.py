"""From claims to address, name and role."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.sso.mapping import MAX_GROUPS, clean_name, merge_claims, needs_userinfo, read_profile, role_of
from control.sso.refusal import LoginRefused
from control.sso.tables import Protocol
from proto.identity import MAX_NAME_LENGTH, NAME_PATTERN, Role

SAML, OIDC = Protocol.SAML, Protocol.OIDC
CLAIMS = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
X500_EMAIL, X500_GIVEN_NAME, X500_SURNAME = "urn:oid:1.2.840.113549.1.9.1", "urn:oid:2.5.4.42", "urn:oid:2.5.4.4"


@pytest.mark.parametrize(
    ("protocol", "mapping", "claims", "expected"),
    [
        (OIDC, None, {"email": "Ada@Example.com", "name": "Ada"}, ("ada@example.com", "Ada", set())),
        (OIDC, None, {"email": "a@example.com"}, ("a@example.com", "a", set())),
        (OIDC, None, {"email": "a@example.com", "groups": ["x", "y", ""]}, ("a@example.com", "a", {"x", "y"})),
        (OIDC, None, {"email": "a@example.com", "groups": "x"}, ("a@example.com", "a", {"x"})),
        (OIDC, None, {"email": "a@example.com", "groups": [1, None, {}]}, ("a@example.com", "a", set())),
        (SAML, None, {"mail": ["a@example.com"], "cn": ["A", "B"]}, ("a@example.com", "A", set())),
        (SAML, None, {f"{CLAIMS}emailaddress": ["a@example.com"]}, ("a@example.com", "a", set())),
        (SAML, None, {"urn:oid:1.2.840.113549.1.9.1": ["a@example.com"]}, ("a@example.com", "a", set())),
        (
            OIDC,
            None,
            {"email": "a@example.com", "given_name": "Ada", "family_name": "L."},
            ("a@example.com", "Ada L.", set()),
        ),
        (
            OIDC,
            None,
            {"email": "a@example.com", "given_name": "Ada", "name": "A. L."},
            ("a@example.com", "A. L.", set()),
        ),
        (SAML, None, {"mail": ["a@example.com"], "urn:oid:2.5.4.4": ["L.", "B."]}, ("a@example.com", "L.", set())),
        (
            SAML,
            None,
            {"mail": ["a@example.com"], f"{CLAIMS}name": ["a@corp"], f"{CLAIMS}givenname": ["Ada"], "sn": ["L."]},
            ("a@example.com", "Ada L.", set()),
        ),
        (SAML, None, {"mail": ["a@example.com"], f"{CLAIMS}name": ["a@corp"]}, ("a@example.com", "a@corp", set())),
        (
            SAML,
            None,
            {"Email": ["a@example.com"], "DisplayName": ["A"], "MemberOf": ["G", "h"]},
            ("a@example.com", "A", {"G", "h"}),
        ),
        (SAML, None, {"EMAIL": ["b@example.com"], "mail": ["a@example.com"]}, ("a@example.com", "a", set())),
        (SAML, None, {"EMAIL": ["b@example.com"], "Email": ["a@example.com"]}, ("b@example.com", "b", set())),
        (SAML, None, {"EMAIL": [], "Email": ["a@example.com"]}, ("a@example.com", "a", set())),
        (SAML, None, {"URN:OID:0.9.2342.19200300.100.1.3": ["a@example.com"]}, ("a@example.com", "a", set())),
        (
            SAML,
            None,
            {f"{CLAIMS}EmailAddress": ["a@example.com"], f"{CLAIMS}GivenName": ["Ada"], "SN": ["L."]},
            ("a@example.com", "Ada L.", set()),
        ),
        (SAML, None, {"Mail": ["a@example.com"], f"{CLAIMS}Name": ["a@corp"]}, ("a@example.com", "a@corp", set())),
        (
            SAML,
            {"email": "mail", "groups": ["memberOf"]},
            {"Mail": ["b@example.com"], "mail": ["a@example.com"], "memberof": ["x"], "DISPLAYNAME": ["A"]},
            ("a@example.com", "A", set()),
        ),
        (OIDC, None, {"email": "a@example.com", "Name": "A", "GROUPS": ["x"]}, ("a@example.com", "a", set())),
        (SAML, {"name": "x"}, {"mail": ["a@example.com"], "givenName": ["Ada"]}, ("a@example.com", "a", set())),
        (
            SAML,
            None,
            {X500_EMAIL: ["a@example.com"], X500_GIVEN_NAME: ["Ada", "Augusta"], X500_SURNAME: ["King"]},
            ("a@example.com", "Ada King", set()),
        ),
        (SAML, None, {"mail": ["a@example.com"], "sn": ["King"]}, ("a@example.com", "King", set())),
        (
            SAML,
            None,
            {"mail": ["a@example.com"], f"{CLAIMS}name": ["a@corp.example.com"], f"{CLAIMS}givenname": ["Ada"]},
            ("a@example.com", "Ada", set()),
        ),
        (SAML, None, {"mail": ["a@example.com"], f"{CLAIMS}name": ["ada"]}, ("a@example.com", "ada", set())),
        (SAML, {"name": "nick"}, {"mail": ["a@example.com"], "givenName": ["Ada"]}, ("a@example.com", "a", set())),
        (
            OIDC,
            None,
            {"email": "a@example.com", "given_name": "Ada", "family_name": "King"},
            ("a@example.com", "Ada King", set()),
        ),
        (
            OIDC,
            None,
            {"email": "a@example.com", "name": "Ada K.", "given_name": "Ada", "family_name": "King"},
            ("a@example.com", "Ada K.", set()),
        ),
        (
            SAML,
            {"email": ["x", "y"]},
            {"x": [], "y": ["b@example.com"], "email": ["c@example.com"]},
            ("b@example.com", "b", set()),
        ),
        (
            OIDC,
            {"groups": "roles"},
            {"email": "a@example.com", "groups": ["g"], "roles": ["r"]},
            ("a@example.com", "a", {"r"}),
        ),
    ],
)
def test_claims_become_the_profile_that_the_mapping_says(
    protocol: Protocol, mapping: Any, claims: Any, expected: Any
) -> None:
    profile = read_profile(protocol, mapping, claims)
    assert (profile.email, profile.name, set(profile.groups)) == expected


def test_the_subject_counts_as_an_address_if_its_format_says_so() -> None:
    assert read_profile(SAML, None, {}, "ada@example.com").email == "ada@example.com"
    assert read_profile(SAML, None, {"email": ["b@example.com"]}, "ada@example.com").email == "b@example.com"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({}, "email_missing"),
        ({"email": ""}, "email_missing"),
        ({"email": ["a@example.com", 1]}, None),
        ({"email": "a@example.com\n"}, None),
        ({"email": "a b@example.com"}, "email_invalid"),
        ({"email": "x" * 250 + "@example.com"}, "email_invalid"),
        ({"email": {"a": 1}}, "email_missing"),
        ({"email": "a@example.com", "groups": ["g"] * (MAX_GROUPS + 1)}, "too_many_groups"),
    ],
)
def test_claims_without_a_usable_address_or_with_too_many_groups_are_refused(claims: Any, reason: str | None) -> None:
    if reason is None:
        assert read_profile(OIDC, None, claims).email == "a@example.com"
        return
    with pytest.raises(LoginRefused) as refusal:
        read_profile(OIDC, None, claims)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("value", "verified"), [(True, True), ("true", True), (False, False), ("false", False), (1, False), (None, False)]
)
def test_an_address_is_verified_if_the_provider_says_so(value: Any, verified: bool) -> None:
    claims = {"email": "a@example.com", "email_verified": value}
    assert read_profile(OIDC, None, claims).email_verified is verified
    assert not read_profile(SAML, None, claims).email_verified


def test_that_an_address_is_verified_says_nothing_of_another_one() -> None:
    """A mapped claim may have what the user has typed."""
    claims = {"email": "eve@example.com", "preferred_username": "ada@example.com", "email_verified": True}
    profile = read_profile(OIDC, {"email": ["upn", "preferred_username"]}, claims)
    assert (profile.email, profile.email_verified) == ("ada@example.com", False)
    same = read_profile(OIDC, {"email": "preferred_username"}, claims | {"email": "Ada@example.com"})
    assert (same.email, same.email_verified) == ("ada@example.com", True)


def test_userinfo_adds_what_the_id_token_lacks() -> None:
    verified = {"email": "ada@example.com", "email_verified": True, "name": "Ada"}
    assert merge_claims({"sub": "1", "name": "A."}, verified) == verified | {"sub": "1", "name": "A."}
    assert merge_claims({"email": "ada@example.com"}, verified) == verified
    assert merge_claims({"email": "eve@example.com"}, verified) == {"email": "eve@example.com", "name": "Ada"}
    assert merge_claims(verified, {"email_verified": False}) == verified


def test_the_highest_role_counts() -> None:
    mapping = {"v": "VIEWER", "b": "BILLING", "m": "MEMBER", "a": "ADMIN"}
    assert role_of(mapping, Role.VIEWER, frozenset("bm")) is Role.MEMBER
    assert role_of(mapping, Role.VIEWER, frozenset("vbma")) is Role.ADMIN
    assert role_of(mapping, Role.BILLING, frozenset("x")) is Role.BILLING
    assert role_of(mapping, Role.ADMIN, frozenset("v")) is Role.VIEWER
    assert role_of(None, Role.MEMBER, frozenset("a")) is Role.MEMBER
    assert role_of({"o": "OWNER"}, Role.VIEWER, frozenset("o")) is Role.VIEWER, "whatever a row says"


@given(st.text(st.characters(), max_size=400))
def test_names_are_names(text: str) -> None:
    name = clean_name(text)
    assert len(name) <= MAX_NAME_LENGTH
    assert name == "" or re.search(NAME_PATTERN, name)


def test_userinfo_is_asked_for_what_the_id_token_lacks() -> None:
    token = {"email": "a@example.com", "name": "A"}
    assert not needs_userinfo(None, None, token)
    assert needs_userinfo(None, None, {"email": "a@example.com"})
    assert needs_userinfo({"name": "cn"}, None, token)
    assert not needs_userinfo({"groups": "roles"}, None, token), "no role depends on it"
    roles = {"x": "ADMIN"}
    assert needs_userinfo(None, roles, token)
    assert needs_userinfo({"groups": "memberOf"}, roles, token | {"groups": ["x"]})
    assert not needs_userinfo(None, roles, token | {"groups": ["x"]})
