"""What a login with certain attributes would do: `POST /orgs/{orgSlug}/sso/connections/{protocol}/dry-run`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from control.identity import member_repository, user_repository
from control.identity.sso import accounts, identities, mapping
from control.identity.sso.connection_store import StoredConnection
from control.identity.sso.mapping import Profile
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import MAX_SUBJECT_LENGTH, Protocol
from proto.identity import Role

_Value = str | bool | float | None | list[str]
_Account = Literal["KNOWN", "LINKED", "CREATED", "REFUSED"]


class ConnectionDryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a provider would say: attributes of an assertion, or claims of an ID token."""

    attributes: Annotated[dict[str, _Value], Meta(max_length=200)]
    subject: Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT_LENGTH)] | None = None


class ConnectionDryRunResult(msgspec.Struct, frozen=True, rename="camel"):
    """What would follow. `account`: the linked one (KNOWN), one that would be linked by its address (LINKED) or
    created (CREATED), or none (REFUSED), for the reason that the audit log would have.
    """

    account: _Account
    reason: str | None
    detail: str | None
    email: str | None
    name: str | None
    groups: list[str]
    role: Annotated[
        Role | None,
        Meta(
            description="The role of a new member. Existing members keep theirs unless there is a `roleMapping`; "
            "owners, and the last administrator, always do."
        ),
    ]


async def dry_run(
    connection: AsyncConnection, caller: AuthorizationContext, stored: StoredConnection, body: ConnectionDryRun
) -> ConnectionDryRunResult:
    """What a login through the connection would do. A `subject` of SAML that is an address counts as a NameID whose
    format says so.
    """
    subject = body.subject or ""
    named = subject if stored.protocol is Protocol.SAML and "@" in subject else ""
    try:
        profile = mapping.read_profile(stored.protocol, stored.attribute_mapping, body.attributes, named)
    except LoginRefused as refusal:
        return _result("REFUSED", None, None, refusal)
    role = mapping.role_of(stored.role_mapping, stored.default_role, profile.groups)
    try:
        account, principal_id = await _find_account(connection, caller, stored, subject, profile)
    except LoginRefused as refusal:
        return _result("REFUSED", profile, role, refusal)
    member = principal_id and await member_repository.find_member(connection, caller.org_id, principal_id)
    return _result(account, profile, member.role if member and member.managed else role)


async def _find_account(
    connection: AsyncConnection, caller: AuthorizationContext, stored: StoredConnection, subject: str, profile: Profile
) -> tuple[_Account, str | None]:
    """What becomes of the subject, and whose account it has or would get. Raises LoginRefused."""
    known = await identities.find_identity(connection, stored.id, subject) if subject else None
    if known is not None:
        return "KNOWN", known.principal_id
    provisioned = await accounts.find_provisioned(connection, stored, subject, profile)
    linked = provisioned or await user_repository.find_in_organization(connection, profile.email, caller.org_slug)
    if linked is None:
        return "CREATED", None
    if provisioned is None:
        await accounts.require_linkable(connection, stored, linked, profile)
    await accounts.require_unlinked(connection, stored, linked)
    return "LINKED", linked.id


def _result(
    account: _Account, profile: Profile | None, role: Role | None, refusal: LoginRefused | None = None
) -> ConnectionDryRunResult:
    return ConnectionDryRunResult(
        account=account,
        reason=None if refusal is None else refusal.reason,
        detail=None if refusal is None else refusal.detail,
        email=None if profile is None else profile.email,
        name=None if profile is None else profile.name,
        groups=[] if profile is None else sorted(profile.groups),
        role=role,
    )
