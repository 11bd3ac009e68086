"""The account and the membership of whoever a provider has vouched for, in one transaction.

    find_account     the account that is linked; else the one to link, if that is allowed; else a new account
    admit            a new membership; or another role, if the organization maps groups to roles and no directory
                     manages the member, whose groups count then
    link             what makes the next login find the account. It goes with the membership
    dry_run          what a login would do, without doing it

An account of the organization with the same address is never taken over by an assertion alone. It is linked when its
own session has asked for that (`control.identity.sso.login.start`), or when the organization has proven the domain of
the address, the provider has verified it (OpenID Connect), and the account is no owner. An account that the
organization's directory has made is linked as well: for nobody else. Whom the directory has taken out is refused.
Accounts of other organizations with the same address stay what they are: a new account is confined to this
organization, like that of an invitation.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from control.identity.directory import user_store as provisioned_users
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.sso import domains, identities, mapping
from control.identity.sso.connection_store import ConnectionOfOrganization, StoredConnection
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import MAX_SUBJECT_LENGTH, Protocol
from control.identity.users import user_store
from control.identity.users.user_store import EmailTaken, User
from proto.identity import Role


@dataclass(frozen=True, slots=True)
class FoundAccount:
    """`identity` None: the account is to be linked. `created`: it was made by this login."""

    user: User
    identity: identities.LinkedIdentity | None = None
    created: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """`provisioned`: this login made the membership. `before`: the role until then, if it has another one now. `kept`:
    the mapped role, if the member keeps another one, because it is an owner or the last administrator.
    """

    role: Role
    provisioned: bool
    before: Role | None = None
    kept: Role | None = None


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


async def find_account(
    connection: AsyncConnection,
    found: ConnectionOfOrganization,
    subject: str,
    profile: mapping.Profile,
    link_principal_id: str | None,
) -> FoundAccount:
    """The account of a subject. `link_principal_id`: the account that has asked to be linked to it. Raises
    LoginRefused.
    """
    identity = await identities.find_identity(connection, found.connection.id, subject)
    if link_principal_id is not None:
        return await _find_requested(connection, found.connection, identity, link_principal_id)
    if identity is not None:
        user = await user_store.get_user(connection, identity.principal_id)
        return FoundAccount(_require_active(user), identity)
    provisioned = await find_provisioned(connection, found.connection, subject, profile)
    if provisioned is not None:
        return FoundAccount(_require_active(provisioned))
    existing = await user_store.find_in_organization(connection, profile.email, found.org_slug)
    if existing is not None:
        await require_linkable(connection, found.connection, existing, profile)
        return FoundAccount(_require_active(existing))
    try:
        user = await user_store.create_user(
            connection, profile.email, profile.name, None, home_org_id=found.connection.org_id
        )
    except EmailTaken:
        raise _account_exists(profile) from None
    return FoundAccount(user, created=True)


async def admit(connection: AsyncConnection, stored: StoredConnection, user: User, groups: frozenset[str]) -> Admission:
    """Make the user a member, or give the member the mapped role. Never grants OWNER, never takes it away, and never
    demotes the last administrator. Raises LoginRefused for an owner, unless an owner has confirmed the provider: else
    an administrator, who chooses it, could be one.
    """
    role = mapping.role_of(stored.role_mapping, stored.default_role, groups)
    member = await member_store.find_member(connection, stored.org_id, user.id)
    if member is not None and member.role is Role.OWNER and not stored.confirmed_by_owner:
        raise LoginRefused(
            "not_confirmed", "An owner has to confirm provider and certificates, by a PUT of the connection."
        )
    if member is None:
        await organization_store.add_membership(connection, stored.org_id, user.id, role)
        return Admission(role, provisioned=True)
    if stored.role_mapping is None or member.role is role or member.managed:
        return Admission(member.role, provisioned=False)
    may_change = member.role is not Role.OWNER and await member_store.has_other_administrators(
        connection, stored.org_id, member, stays_admin=role is Role.ADMIN
    )
    if not may_change:
        return Admission(member.role, provisioned=False, kept=role)
    await organization_store.set_role(connection, stored.org_id, user.id, role)
    return Admission(role, provisioned=False, before=member.role)


async def link(
    connection: AsyncConnection,
    stored: StoredConnection,
    subject: str,
    profile: mapping.Profile,
    account: FoundAccount,
    now: datetime,
) -> str:
    """The id of the identity of a member's account: a new one, unless the subject is linked already. Raises
    LoginRefused.
    """
    if account.identity is not None:
        await identities.note_login(connection, account.identity.id, profile.email, now)
        return account.identity.id
    await require_unlinked(connection, stored, account.user)
    return await identities.create_identity(
        connection, stored.id, stored.org_id, subject, account.user.id, profile.email, now
    )


async def find_provisioned(
    connection: AsyncConnection, stored: StoredConnection, subject: str, profile: mapping.Profile
) -> User | None:
    """The account that the organization's directory has made for this subject. An address counts only if the provider
    vouches for it: some let users choose theirs. Raises LoginRefused for whom the directory has taken out, and for an
    account that has become an owner's, or a member of other organizations.
    """
    vouched = stored.protocol is Protocol.SAML or profile.email_verified
    found = await provisioned_users.find_for_login(connection, stored.org_id, subject, profile.email)
    if found is not None and not found.active:  # refused by any address: nobody comes in again as somebody new
        raise LoginRefused("account_deactivated", "The organization's directory has deactivated the user.")
    if not vouched:
        found = await provisioned_users.find_for_login(connection, stored.org_id, subject, None)
    if found is None or found.principal_id is None or not found.owns_account:
        return None
    return await _require_directorys(connection, stored.org_id, found.principal_id)


async def _require_directorys(connection: AsyncConnection, org_id: str, principal_id: str) -> User:
    """The account that the directory has made. Raises LoginRefused if it is more by now than the directory's: whoever
    writes `externalId` chooses who logs in as it.
    """
    member = await member_store.find_member(connection, org_id, principal_id)
    if member is not None and member.role is Role.OWNER:
        raise LoginRefused("account_exists", "The user has become an owner, and has to link the account.")
    if await member_store.is_elsewhere(connection, org_id, principal_id):
        raise LoginRefused("account_exists", "The user has joined other organizations, and has to link the account.")
    return await user_store.get_user(connection, principal_id)


async def require_linkable(
    connection: AsyncConnection, stored: StoredConnection, existing: User, profile: mapping.Profile
) -> None:
    """Raises LoginRefused unless the address alone suffices to link the account."""
    member = await member_store.find_member(connection, stored.org_id, existing.id)
    proven = await domains.is_domain_verified(connection, stored.org_id, profile.email.rpartition("@")[2])
    verified = stored.protocol is Protocol.SAML or profile.email_verified
    if member is not None and member.role is Role.OWNER:
        raise LoginRefused("account_exists", f"An owner has the address {profile.email}, and has to link the account.")
    if member is None or not proven:
        raise _account_exists(profile)
    if not verified:
        raise LoginRefused(
            "account_exists",
            f"A member has the address {profile.email}, and the provider does not say that it has verified it.",
        )


async def require_unlinked(connection: AsyncConnection, stored: StoredConnection, user: User) -> None:
    """Raises LoginRefused for an account that another subject of the connection has."""
    if await identities.find_identity_of_account(connection, stored.id, user.id) is not None:
        raise LoginRefused("account_linked", "The account is linked to another user of the provider.")


async def _find_requested(
    connection: AsyncConnection, stored: StoredConnection, identity: identities.LinkedIdentity | None, principal_id: str
) -> FoundAccount:
    """The account whose session has asked to be linked. Its address need not be that of the provider."""
    if await member_store.find_member(connection, stored.org_id, principal_id) is None:
        raise LoginRefused("link_not_member", "The account that asked to be linked is no member any more.")
    user = _require_active(await user_store.get_user(connection, principal_id))
    if identity is not None and identity.principal_id != principal_id:
        raise LoginRefused("link_taken", "The provider's user is linked to another account.")
    return FoundAccount(user, identity)


def _require_active(user: User) -> User:
    if user.disabled_at is not None:
        raise LoginRefused("account_disabled", "The account is disabled.")
    return user


def _account_exists(profile: mapping.Profile) -> LoginRefused:
    return LoginRefused(
        "account_exists",
        f"A member has the address {profile.email}. The member has to log in and link the account, or the "
        "organization has to prove the domain.",
    )


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
        account, principal_id = await _try_account(connection, caller, stored, subject, profile)
    except LoginRefused as refusal:
        return _result("REFUSED", profile, role, refusal)
    member = principal_id and await member_store.find_member(connection, caller.org_id, principal_id)
    return _result(account, profile, member.role if member and member.managed else role)


async def _try_account(
    connection: AsyncConnection,
    caller: AuthorizationContext,
    stored: StoredConnection,
    subject: str,
    profile: mapping.Profile,
) -> tuple[_Account, str | None]:
    """What becomes of the subject, and whose account it has or would get. Raises LoginRefused."""
    known = await identities.find_identity(connection, stored.id, subject) if subject else None
    if known is not None:
        return "KNOWN", known.principal_id
    provisioned = await find_provisioned(connection, stored, subject, profile)
    linked = provisioned or await user_store.find_in_organization(connection, profile.email, caller.org_slug)
    if linked is None:
        return "CREATED", None
    if provisioned is None:
        await require_linkable(connection, stored, linked, profile)
    await require_unlinked(connection, stored, linked)
    return "LINKED", linked.id


def _result(
    account: _Account, profile: mapping.Profile | None, role: Role | None, refusal: LoginRefused | None = None
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
