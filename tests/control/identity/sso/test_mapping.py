"""From claims to address, name and role."""

import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.identity.sso.mapping import MAX_GROUPS, clean_name, merge_claims, needs_userinfo, read_profile, role_of
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import Protocol
from proto.identity import MAX_NAME_LENGTH, NAME_PATTERN, Role

SAML, OIDC = Protocol.SAML, Protocol.OIDC
CLAIMS = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
X500_EMAIL, X500_GIVEN_NAME, X500_SURNAME = "urn:oid:1.2.840.113549.1.9.1", "urn:oid:2.5.4.42", "urn:oid:2.5.4.4"


A, B = "a@example.com", "b@example.com"
# Claims of SAML, and the address that they give.
ADDRESSES: Final[tuple[tuple[dict[str, list[str]], str], ...]] = (
    *(({name: [A]}, A) for name in (f"{CLAIMS}emailaddress", f"{CLAIMS}EmailAddress", X500_EMAIL, "mail", "Mail")),
    ({"URN:OID:0.9.2342.19200300.100.1.3": [A]}, A),
    ({"EMAIL": [B], "mail": [A]}, A),
    ({"EMAIL": [B], "Email": [A]}, B),
    ({"EMAIL": [], "Email": [A]}, A),
)
# Claims beside the address a@example.com, and the name that they give.
NAMES: Final[dict[Protocol, tuple[tuple[dict[str, Any], str], ...]]] = {
    OIDC: (
        ({}, "a"),
        ({"name": "Ada"}, "Ada"),
        ({"given_name": "Ada", "family_name": "King"}, "Ada King"),
        ({"given_name": "Ada", "name": "A. L."}, "A. L."),
        ({"name": "Ada K.", "given_name": "Ada", "family_name": "King"}, "Ada K."),
        ({"Name": "A"}, "a"),
    ),
    SAML: (
        ({}, "a"),
        ({"cn": ["A", "B"]}, "A"),
        ({"DisplayName": ["A"]}, "A"),
        ({"sn": ["King"]}, "King"),
        ({X500_SURNAME: ["L.", "B."]}, "L."),
        ({X500_GIVEN_NAME: ["Ada", "Augusta"], X500_SURNAME: ["King"]}, "Ada King"),
        ({f"{CLAIMS}name": ["a@corp"]}, "a@corp"),
        ({f"{CLAIMS}Name": ["a@corp"]}, "a@corp"),
        ({f"{CLAIMS}name": ["ada"]}, "ada"),
        ({f"{CLAIMS}name": ["a@corp.example.com"], f"{CLAIMS}givenname": ["Ada"]}, "Ada"),
        ({f"{CLAIMS}name": ["a@corp"], f"{CLAIMS}givenname": ["Ada"], "sn": ["L."]}, "Ada L."),
        ({f"{CLAIMS}GivenName": ["Ada"], "SN": ["L."]}, "Ada L."),
    ),
}
GROUPS: Final[tuple[tuple[Protocol, dict[str, Any], set[str]], ...]] = (
    (OIDC, {"groups": ["x", "y", ""]}, {"x", "y"}),
    (OIDC, {"groups": "x"}, {"x"}),
    (OIDC, {"groups": [1, None, {}]}, set()),
    (OIDC, {"GROUPS": ["x"]}, set()),
    (SAML, {"MemberOf": ["G", "h"]}, {"G", "h"}),
)


def test_claims_become_a_profile() -> None:
    assert read_profile(OIDC, None, {"email": "Ada@Example.com"}).email == "ada@example.com"
    for claims, email in ADDRESSES:
        assert read_profile(SAML, None, claims).email == email, claims
    for protocol, named in NAMES.items():
        for claims, name in named:
            profile = read_profile(protocol, None, {"email": A} | claims)
            assert (profile.email, profile.name) == (A, name), claims
    for protocol, claims, groups in GROUPS:
        assert set(read_profile(protocol, None, {"email": A} | claims).groups) == groups, claims


def test_a_mapping_says_which_claims_count() -> None:
    mapped: tuple[tuple[Protocol, dict[str, Any], dict[str, Any], tuple[str, str, set[str]]], ...] = (
        (
            SAML,
            {"email": "mail", "groups": ["memberOf"]},
            {"Mail": [B], "mail": [A], "memberof": ["x"], "DISPLAYNAME": ["A"]},
            (A, "A", set()),
        ),
        (SAML, {"name": "nick"}, {"mail": [A], "givenName": ["Ada"]}, (A, "a", set())),
        (SAML, {"email": ["x", "y"]}, {"x": [], "y": [B], "email": ["c@example.com"]}, (B, "b", set())),
        (OIDC, {"groups": "roles"}, {"email": A, "groups": ["g"], "roles": ["r"]}, (A, "a", {"r"})),
    )
    for protocol, mapping, claims, expected in mapped:
        profile = read_profile(protocol, mapping, claims)
        assert (profile.email, profile.name, set(profile.groups)) == expected


def test_the_subject_counts_as_an_address_if_its_format_says_so() -> None:
    assert read_profile(SAML, None, {}, "ada@example.com").email == "ada@example.com"
    assert read_profile(SAML, None, {"email": ["b@example.com"]}, "ada@example.com").email == "b@example.com"


def test_claims_without_a_usable_address_or_with_too_many_groups_are_refused() -> None:
    refused: dict[str, tuple[dict[str, Any], ...]] = {
        "email_missing": ({}, {"email": ""}, {"email": {"a": 1}}),
        "email_invalid": ({"email": "a b@example.com"}, {"email": "x" * 250 + "@example.com"}),
        "too_many_groups": ({"email": A, "groups": ["g"] * (MAX_GROUPS + 1)},),
    }
    for reason, every in refused.items():
        for claims in every:
            with pytest.raises(LoginRefused) as refusal:
                read_profile(OIDC, None, claims)
            assert refusal.value.reason == reason
    for email in ([A, 1], f"{A}\n"):
        assert read_profile(OIDC, None, {"email": email}).email == A


def test_an_address_is_verified_if_the_provider_says_so() -> None:
    for value, verified in ((True, True), ("true", True), *((no, False) for no in (False, "false", 1, None))):
        claims = {"email": A, "email_verified": value}
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
