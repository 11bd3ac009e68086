"""Bodies of single sign-on: connections (specification 2.6), session material (2.7), and what is of our own."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from control.http.field_types import Timestamp
from control.identity.bodies import Email, InCookie
from control.identity.login.credentials import SessionUser, Tokens
from control.identity.sso.connection_repository import StoredConnection
from control.identity.sso.tables import MAX_CLIENT_ID_LENGTH, MAX_ENTITY_ID_LENGTH, MfaTrust, Protocol
from proto.identity import MAX_URL_LENGTH, Role

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
    """Changes to a connection: null clears a field, an absent one stays."""

    enabled: bool | UnsetType = UNSET
    enforced: Annotated[
        bool | UnsetType,
        Meta(description="Whether members have to log in through it. Needs `enabled` and one login that succeeded."),
    ] = UNSET
    default_role: SettableRole | UnsetType = UNSET
    attribute_mapping: Annotated[
        AttributeMapping | UnsetType | None,
        Meta(
            description="Names of the claims or attributes that have `email`, `name` and `groups`; of several, the "
            "first present one counts. Null: the usual names."
        ),
    ] = UNSET
    role_mapping: Annotated[
        RoleMapping | UnsetType | None,
        Meta(
            description="Role by group; the highest counts, else `defaultRole`, at every login. Null: `defaultRole`, "
            "for new members only."
        ),
    ] = UNSET
    idp_entity_id: Annotated[str, Meta(min_length=1, max_length=MAX_ENTITY_ID_LENGTH)] | UnsetType | None = UNSET
    idp_sso_url: _Url | UnsetType | None = UNSET
    idp_certificate: Annotated[
        _Certificate | UnsetType | None, Meta(description="PEM, or base64 as in metadata. Never returned.")
    ] = UNSET
    idp_certificate_alternates: Annotated[
        Annotated[list[_Certificate], Meta(max_length=MAX_ALTERNATES)] | UnsetType,
        Meta(
            description="Certificates that count as well, to change the first one without an outage. Replaced as a "
            "whole."
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


class LoginUser(msgspec.Struct, frozen=True):
    """Who has logged in."""

    id: str
    email: Email
    name: str


class CompletedLogin(msgspec.Struct, frozen=True, rename="camel"):
    """A session that an identity provider has vouched for. `provisioned`: this login made the membership."""

    user: LoginUser
    org_id: str
    role: Role
    provisioned: bool
    relay_state: str | None
    tokens: Tokens


class HandoffCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The code of a login that ended with a redirect."""

    code: Annotated[str, Meta(min_length=1, max_length=512)]
    cookie: InCookie = False


class Handoff(msgspec.Struct, frozen=True, rename="camel"):
    """The session of a login, and where the user wanted to go. `provisioned`: the login made the membership."""

    org_id: str
    role: Role
    provisioned: bool
    tokens: Tokens
    user: SessionUser
    next: str | None


class AssertionPost(msgspec.Struct, frozen=True):
    """What a SAML provider posts."""

    saml_response: str = msgspec.field(name="SAMLResponse")
    relay_state: str | None = msgspec.field(default=None, name="RelayState")


class SsoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the organization decides for all its connections."""

    mfa_trust: Annotated[
        MfaTrust,
        Meta(
            description="When a login through a provider counts as one with a second factor, for users who have one "
            "here: NEVER, when the provider asserts it (ASSERTED), or ALWAYS."
        ),
    ] = MfaTrust.ASSERTED
    personal_tokens: Annotated[
        bool, Meta(description="Whether access tokens of users work while single sign-on is enforced.")
    ] = True
    break_glass_principal_id: Annotated[
        Annotated[str, Meta(max_length=32)] | None,
        Meta(
            description="The owner who may log in with a password while single sign-on is enforced. Null: the first "
            "owner with a password.",
        ),
    ] = None


class ShownSettings(SsoSettings, frozen=True, rename="camel", kw_only=True):
    """The settings, and what follows from them."""

    enforced: Annotated[bool, Meta(description="Whether a connection is enforced.")]
    effective_break_glass_principal_id: Annotated[
        str | None, Meta(description="Who may log in with a password now, if single sign-on is enforced.")
    ]
    tested_protocols: Annotated[
        list[Protocol], Meta(description="Connections through which a login to the present provider succeeded.")
    ]
    confirmed_by_owner: Annotated[
        list[Protocol],
        Meta(description="Connections whose provider and certificates an owner has confirmed: owners may log in."),
    ]


def connection_body(stored: StoredConnection) -> SsoConnection:
    """The API representation."""
    return SsoConnection(
        id=stored.id,
        org_id=stored.org_id,
        protocol=stored.protocol,
        enabled=stored.enabled,
        enforced=stored.enforced,
        default_role=stored.default_role.value,  # type: ignore[arg-type]  # never OWNER: the table has a constraint
        attribute_mapping=None if stored.attribute_mapping is None else dict(stored.attribute_mapping),
        role_mapping=None if stored.role_mapping is None else dict(stored.role_mapping),  # type: ignore[arg-type]
        idp_entity_id=stored.idp_entity_id,
        idp_sso_url=stored.idp_sso_url,
        idp_certificate_configured=stored.idp_certificate is not None,
        idp_certificate_alternate_count=stored.idp_certificate_alternate_count,
        oidc_issuer=stored.oidc_issuer,
        oidc_client_id=stored.oidc_client_id,
        oidc_client_secret_configured=stored.oidc_client_secret is not None,
        oidc_scopes=list(stored.oidc_scopes),
        created_at=format_time(stored.created_at),
        updated_at=format_time(stored.updated_at),
    )
