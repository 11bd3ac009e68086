"""Maps a provider's data about a user to address, name and role. Pure functions.

`attributeMapping` names the claims: {"email": "mail", "name": ["displayName", "cn"], "groups": "memberOf"}. Of several
names the first present one counts. Without a mapping the usual names count. The subject is never mapped: only the
provider's subject identifies the user.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import Protocol
from proto.identity import EMAIL_PATTERN, MAX_EMAIL_LENGTH, MAX_NAME_LENGTH, UNPRINTABLE, Role, normalize_email

MAPPED: Final = ("email", "name", "groups")
MAX_GROUPS: Final = 2_000  # groups of one user
MAX_GROUP_LENGTH: Final = 256

_EMPTY: Final[tuple[object, ...]] = (None, "", [])
_EMAIL: Final = re.compile(EMAIL_PATTERN)
_UNPRINTABLE: Final = re.compile(f"[{UNPRINTABLE}\ud800-\udfff]+")

# The names that providers use. OpenID Connect: core 5.1. SAML: the claims of Microsoft, the eduPerson schema as a name
# and as an OID, and plain words.
_CLAIMS: Final = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
DEFAULT_NAMES: Final[Mapping[Protocol, Mapping[str, Sequence[str]]]] = MappingProxyType(
    {
        Protocol.OIDC: MappingProxyType({"email": ("email",), "name": ("name",), "groups": ("groups", "roles")}),
        Protocol.SAML: MappingProxyType(
            {
                "email": (
                    "email",
                    "mail",
                    f"{_CLAIMS}emailaddress",
                    "urn:oid:0.9.2342.19200300.100.1.3",
                    "urn:oid:1.2.840.113549.1.9.1",  # of X.500, the name that Keycloak uses
                ),
                "name": (
                    "name",
                    "displayName",
                    "cn",
                    "http://schemas.microsoft.com/identity/claims/displayname",
                    "urn:oid:2.16.840.1.113730.3.1.241",
                    "urn:oid:2.5.4.3",
                ),
                "groups": (
                    "groups",
                    "memberOf",
                    "http://schemas.microsoft.com/ws/2008/06/identity/claims/groups",
                    "http://schemas.xmlsoap.org/claims/Group",
                    "urn:oid:1.3.6.1.4.1.5923.1.5.1.1",
                ),
            }
        ),
    }
)
# Given and family name, for providers without an attribute for the whole name: Keycloak has none for SAML, and `name`
# of Entra is the name of the account.
_NAME_PARTS: Final[Mapping[Protocol, Sequence[Sequence[str]]]] = MappingProxyType(
    {
        Protocol.OIDC: (("given_name",), ("family_name",)),
        Protocol.SAML: (
            ("givenName", "firstName", f"{_CLAIMS}givenname", "urn:oid:2.5.4.42"),
            ("sn", "surname", "lastName", f"{_CLAIMS}surname", "urn:oid:2.5.4.4"),
        ),
    }
)
_ROLES: Final = (Role.VIEWER, Role.BILLING, Role.MEMBER, Role.ADMIN)  # ascending; a provider cannot grant OWNER


@dataclass(frozen=True, slots=True)
class Profile:
    """A provider's data about a user. `email` is normalized. `email_verified`: whether the provider has verified this
    address, which SAML cannot say.
    """

    email: str
    email_verified: bool
    name: str
    groups: frozenset[str]


def read_profile(
    protocol: Protocol,
    mapping: Mapping[str, str | Sequence[str]] | None,
    claims: Mapping[str, Any],
    named_email: str = "",
) -> Profile:
    """The profile in the claims of an ID token or the attributes of an assertion. `named_email`: the subject of an
    assertion, if its format says that it is an address. It counts if no attribute is an address. Raises LoginRefused
    without a valid address.
    """
    email = next(iter(_texts(_find(protocol, mapping, "email", claims))), named_email)
    if not email:
        raise LoginRefused(
            "email_missing", "The provider gives no e-mail address. Map `email` to the claim that has it."
        )
    if len(email) > MAX_EMAIL_LENGTH or _EMAIL.fullmatch(email) is None:
        raise LoginRefused("email_invalid", f"Not an e-mail address: {email!r}.")
    email = normalize_email(email)
    name = clean_name(_read_name(protocol, mapping, claims)) or email.partition("@")[0]
    groups = _texts(_find(protocol, mapping, "groups", claims))
    if len(groups) > MAX_GROUPS:
        raise LoginRefused("too_many_groups", f"The provider names {len(groups)} groups, more than {MAX_GROUPS}.")
    verified = protocol is Protocol.OIDC and _is_verified(email, claims)
    return Profile(email, verified, name, frozenset(group for group in groups if len(group) <= MAX_GROUP_LENGTH))


def merge_claims(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """The claims of the ID token, and claims that only userinfo has. `email_verified` of userinfo is left out if it is
    about another address.
    """
    merged = {**userinfo, **id_token}
    if "email_verified" not in id_token and merged.get("email") != userinfo.get("email"):
        merged.pop("email_verified", None)
    return merged


def needs_userinfo(
    mapping: Mapping[str, str | Sequence[str]] | None, role_mapping: Mapping[str, str] | None, claims: Mapping[str, Any]
) -> bool:
    """Whether the ID token lacks a claim that userinfo may have: the address, the name, or the groups if roles depend
    on them.
    """
    wanted = [what for what in MAPPED if what != "groups" or role_mapping is not None]
    return any(_find(Protocol.OIDC, mapping, what, claims) is None for what in wanted)


def role_of(role_mapping: Mapping[str, str] | None, default: Role, groups: frozenset[str]) -> Role:
    """The highest role that a group is mapped to, otherwise the default role."""
    found = {Role(role) for group, role in (role_mapping or {}).items() if group in groups}
    return max(found & set(_ROLES), key=_ROLES.index, default=default)


def clean_name(text: str) -> str:
    """The text as a name: printable, at most MAX_NAME_LENGTH characters, possibly empty."""
    return " ".join(_UNPRINTABLE.sub(" ", text[: 4 * MAX_NAME_LENGTH]).split())[:MAX_NAME_LENGTH].strip()


def _find(
    protocol: Protocol, mapping: Mapping[str, str | Sequence[str]] | None, what: str, claims: Mapping[str, Any]
) -> Any:
    """The value of the first present claim, None if no claim is present."""
    names = (mapping or {}).get(what)
    if not names:
        return _first_usual(protocol, DEFAULT_NAMES[protocol][what], claims)
    return _first_present([names] if isinstance(names, str) else names, claims)


def _first_usual(protocol: Protocol, names: Sequence[str], claims: Mapping[str, Any]) -> Any:
    """Like `_first_present`, for usual names. Attributes of SAML are also found in another case, after those in the
    usual case. Claims of OpenID Connect are case-sensitive (RFC 7519 4).
    """
    found = _first_present(names, claims)
    if found is not None or protocol is not Protocol.SAML:
        return found
    folded = {name.lower(): claims[name] for name in sorted(claims, reverse=True) if claims[name] not in _EMPTY}
    return _first_present([name.lower() for name in names], folded)


def _first_present(names: Sequence[str], claims: Mapping[str, Any]) -> Any:
    return next((value for name in names if (value := claims.get(name)) not in _EMPTY), None)


def _read_name(protocol: Protocol, mapping: Mapping[str, str | Sequence[str]] | None, claims: Mapping[str, Any]) -> str:
    """The name in the provider's spelling, possibly empty."""
    found = [_find(protocol, mapping, "name", claims)]
    if found == [None] and not (mapping or {}).get("name"):
        found = [_first_usual(protocol, names, claims) for names in _NAME_PARTS[protocol]]
        if found == [None, None]:
            found = [_first_usual(protocol, [f"{_CLAIMS}name"], claims)]
    return " ".join(text for value in found for text in _texts(value)[:1])


def _is_verified(email: str, claims: Mapping[str, Any]) -> bool:
    """Whether the provider has verified the address. `email_verified` concerns only the claim `email` (OpenID Connect
    core 5.1). Another mapped claim may have an address that the user has typed.
    """
    said = claims.get("email_verified")
    if said is not True and said != "true":  # some providers send the text
        return False
    return normalize_email(next(iter(_texts(claims.get("email"))), "")) == email


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, Sequence):
        return [each.strip() for each in value if isinstance(each, str) and each.strip()]
    return []


# Several factors in RFC 8176, and the long name of the same value in Microsoft's claim of SAML.
_METHODS: Final = frozenset({"mfa", "http://schemas.microsoft.com/claims/multipleauthn"})
# Contexts that name several factors: the profile of REFEDS, contexts of SAML (authentication context 3.4), and policies
# of OpenID (PAPE, EAP ACR values: phishing-resistant authenticators verify a factor of the user as well).
_CONTEXTS: Final = frozenset(
    {
        "https://refeds.org/profile/mfa",
        "http://schemas.microsoft.com/claims/multipleauthn",
        "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorContract",
        "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorUnregistered",
        "http://schemas.openid.net/pape/policies/2007/06/multi-factor",
        "http://schemas.openid.net/pape/policies/2007/06/multi-factor-physical",
        "phr",
        "phrh",
    }
)


def is_mfa_asserted(methods: Collection[str], context: str | None) -> bool:
    """Whether the provider asserts a second factor. `methods`: the claim `amr`, or the attribute
    `authnmethodsreferences`. `context`: the claim `acr`, or the authentication context class.
    """
    return not _METHODS.isdisjoint(methods) or context in _CONTEXTS
