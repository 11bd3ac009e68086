"""Bodies of connections (specification 2.6), and checks that their types cannot express."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.http.validation import Issues, must_be_one_of
from control.http.field_types import Timestamp, check_url
from control.identity.sso.mapping import MAPPED
from control.identity.sso.saml.certificates import IdpCertificate, parse_certificate
from control.identity.sso.tables import MAX_CLIENT_ID_LENGTH, MAX_ENTITY_ID_LENGTH, Protocol
from proto.identity import MAX_URL_LENGTH

MAX_ALTERNATES: Final = 3
MAX_CERTIFICATE_LENGTH: Final = 16_384
MAX_CLAIM_LENGTH: Final = 256
MAX_MAPPED_GROUPS: Final = 500
MAX_SCOPES: Final = 20
MAX_SECRET_LENGTH: Final = 1_024

SettableRole = Literal["VIEWER", "BILLING", "MEMBER", "ADMIN"]
_ClaimName = Annotated[str, Meta(min_length=1, max_length=MAX_CLAIM_LENGTH)]
_Url = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH, extra_json_schema={"format": "uri"})]
_Certificate = Annotated[str, Meta(min_length=1, max_length=MAX_CERTIFICATE_LENGTH)]
_Scope = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=r"^[\x21\x23-\x5B\x5D-\x7E]+(?!\n)$")
]  # RFC 6749, A.4
AttributeMapping = dict[str, _ClaimName | Annotated[list[_ClaimName], Meta(min_length=1, max_length=10)]]
RoleMapping = Annotated[dict[_ClaimName, SettableRole], Meta(max_length=MAX_MAPPED_GROUPS)]


class ConnectionChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a connection. Null clears a field, an omitted field is not changed."""

    enabled: bool | UnsetType = UNSET
    enforced: Annotated[
        bool | UnsetType,
        Meta(
            description="Whether members must log in through the connection. Requires `enabled` and one successful "
            "login."
        ),
    ] = UNSET
    default_role: SettableRole | UnsetType = UNSET
    attribute_mapping: Annotated[
        AttributeMapping | UnsetType | None,
        Meta(
            description="Names of the claims or attributes that contain `email`, `name` and `groups`. If several names "
            "are given, the first claim or attribute that is present counts. Null: the usual names."
        ),
    ] = UNSET
    role_mapping: Annotated[
        RoleMapping | UnsetType | None,
        Meta(
            description="Role by group, applied at every login. The highest role counts, or `defaultRole` if no group "
            "matches. Null: new members get `defaultRole`, and other members keep their role."
        ),
    ] = UNSET
    idp_entity_id: Annotated[str, Meta(min_length=1, max_length=MAX_ENTITY_ID_LENGTH)] | UnsetType | None = UNSET
    idp_sso_url: _Url | UnsetType | None = UNSET
    idp_certificate: Annotated[
        _Certificate | UnsetType | None,
        Meta(description="PEM, or base64 as in metadata. Never returned."),
    ] = UNSET
    idp_certificate_alternates: Annotated[
        Annotated[list[_Certificate], Meta(max_length=MAX_ALTERNATES)] | UnsetType,
        Meta(
            description="Further accepted certificates, so that `idpCertificate` can be replaced without an outage. A "
            "new list replaces the whole list."
        ),
    ] = UNSET
    oidc_issuer: _Url | UnsetType | None = UNSET
    oidc_client_id: Annotated[str, Meta(min_length=1, max_length=MAX_CLIENT_ID_LENGTH)] | UnsetType | None = UNSET
    oidc_client_secret: Annotated[str, Meta(min_length=1, max_length=MAX_SECRET_LENGTH)] | UnsetType | None = UNSET
    oidc_scopes: Annotated[
        Annotated[list[_Scope], Meta(max_length=MAX_SCOPES)] | UnsetType, Meta(description="Must contain openid.")
    ] = UNSET


class SsoConnection(msgspec.Struct, frozen=True, rename="camel"):
    """A connection to an identity provider."""

    id: str
    org_id: str
    protocol: Protocol
    enabled: bool
    enforced: bool
    default_role: SettableRole
    attribute_mapping: dict[str, Any] | None
    role_mapping: dict[str, SettableRole] | None
    idp_entity_id: str | None
    idp_sso_url: str | None
    idp_certificate_configured: bool
    idp_certificate_alternate_count: Annotated[int, Meta(ge=0, le=MAX_ALTERNATES)]
    oidc_issuer: str | None
    oidc_client_id: str | None
    oidc_client_secret_configured: bool
    oidc_scopes: list[str]
    created_at: Timestamp
    updated_at: Timestamp


class ConnectionList(msgspec.Struct, frozen=True):
    """The connections of the organization: at most one for each protocol."""

    connections: list[SsoConnection]


class Deleted(msgspec.Struct, frozen=True):
    """The connection was deleted."""

    deleted: Literal[True] = True


NAMES: Final = dict(zip(ConnectionChange.__struct_fields__, ConnectionChange.__struct_encode_fields__, strict=True))


@dataclass(frozen=True, slots=True)
class CheckedChange:
    """A change with its certificates parsed. UNSET and None have the same meaning as in the change."""

    change: ConnectionChange
    primary: Any
    alternates: Any

    def certificates(self) -> list[IdpCertificate]:
        """All certificates of the change."""
        return [each for each in (self.primary, *(self.alternates or ())) if isinstance(each, IdpCertificate)]


def check_change(change: ConnectionChange, issues: Issues) -> CheckedChange:
    """Record an issue for each field with a fault that its type cannot express. Returns the parsed change."""
    for name in ("idp_entity_id", "oidc_client_id"):
        value = getattr(change, name)
        if isinstance(value, str) and not value.isprintable():  # PostgreSQL cannot store NUL; no provider has the rest
            issues.add(f"body.{NAMES[name]}", "Must consist of printable characters.", "format")
    for name in ("idp_sso_url", "oidc_issuer"):
        value, path, is_issuer = getattr(change, name), f"body.{NAMES[name]}", name == "oidc_issuer"
        # https only, because browsers carry the login over the URL, and keys are fetched from it.
        check_url(value, path, issues, allow_http=False)
        if (
            isinstance(value, str)
            and not issues.has_issue_under(path)
            and ("#" in value or (is_issuer and "?" in value))
        ):
            what = "no query and no fragment" if is_issuer else "no fragment"  # OpenID Connect Discovery 1.0, section 3
            issues.add(path, f"Must have {what}.", "format")
    if isinstance(change.attribute_mapping, dict) and not change.attribute_mapping.keys() <= set(MAPPED):
        issues.add("body.attributeMapping", f"Keys: {must_be_one_of(MAPPED).lower()}", "unknown_field")
    scopes = change.oidc_scopes
    if scopes is not UNSET and not issues.has_issue_under("body.oidcScopes") and "openid" not in scopes:
        issues.add("body.oidcScopes", "Must contain openid.", "missing")
    return _parse_certificates(change, issues)


def _parse_certificates(change: ConnectionChange, issues: Issues) -> CheckedChange:
    primary: Any = change.idp_certificate
    if isinstance(primary, str) and not issues.has_issue_under("body.idpCertificate"):
        primary = _parse_certificate(primary, "body.idpCertificate", issues)
    alternates: Any = change.idp_certificate_alternates
    if alternates is not UNSET and not issues.has_issue_under("body.idpCertificateAlternates"):
        alternates = [
            _parse_certificate(text, f"body.idpCertificateAlternates[{index}]", issues)
            for index, text in enumerate(alternates)
        ]
    return CheckedChange(change, primary, alternates)


def _parse_certificate(text: str, path: str, issues: Issues) -> IdpCertificate | None:
    try:
        return parse_certificate(text)
    except ValueError as error:
        issues.add(path, str(error), "format")
        return None
