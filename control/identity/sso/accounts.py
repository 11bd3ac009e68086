"""The account and the membership of a user that a provider has identified, in one transaction.

    find_account     the linked account; otherwise an account to link, if that is allowed; otherwise a new account
    admit            a new membership; or another role, if the organization maps groups to roles. If a directory manages
                     the member, the groups of the directory decide instead
    link             makes the next login find the account. The link ends with the membership
    dry_run          shows what a login would do, without doing it

An assertion alone never takes over an account of the organization with the same address. The account is linked if its
own session has asked for the link (`control.identity.sso.login.start`). It is also linked if the organization has
proven the domain of the address, the provider has verified the address (OpenID Connect), and the account is not an
owner. An account that the organization's directory has made is linked as well, because it was made for this user. A
user whom the directory has removed is refused. Accounts of other organizations with the same address are not changed: a
new account is confined to this organization, like an account of an invitation.
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
    """The account of a login. `identity` None: the account is to be linked. `created`: this login made the account."""

    user: User
    identity: identities.LinkedIdentity | None = None
    created: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """The membership after a login. `provisioned`: this login made the membership. `before`: the previous role, if the
    role has changed. `kept`: the mapped role, if the member keeps another role as an owner or the last administrator.
    """

    role: Role
    provisioned: bool
    before: Role | None = None
    kept: Role | None = None


_Value = str | bool | float | None | list[str]
_Account = Literal["KNOWN", "LINKED", "CREATED", "REFUSED"]


class ConnectionDryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Data from a provider: attributes of an assertion, or claims of an ID token."""

    attributes: Annotated[dict[str, _Value], Meta(max_length=200)]
    subject: Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT_LENGTH)] | None = None


class ConnectionDryRunResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a login with the given data. `account`: the linked account (KNOWN), an account that would be linked
    by its address (LINKED) or created (CREATED), or no account (REFUSED), with the reason that the audit log would
    have.
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
            description="The role of a new member. Existing members keep their role unless there is a `roleMapping`. "
            "Owners, and the last administrator, always keep their role."
        ),
    ]


async def find_account(
    connection: AsyncConnection,
    sso: ConnectionOfOrganization,
    subject: str,
    profile: mapping.Profile,
    link_principal_id: str | None,
) -> FoundAccount:
    """The account of a subject. `link_principal_id`: the account that has asked to be linked to the subject. Raises
    LoginRefused.
    """
    identity = await identities.find_identity(connection, sso.connection.id, subject)
    if link_principal_id is not None:
        return await _find_requested(connection, sso.connection, identity, link_principal_id)
    if identity is not None:
        user = await user_store.get_user(connection, identity.principal_id)
        return FoundAccount(_require_active(user), identity)
    provisioned = await find_provisioned(connection, sso.connection, subject, profile)
    if provisioned is not None:
        return FoundAccount(_require_active(provisioned))
    existing = await user_store.find_in_organization(connection, profile.email, sso.org_slug)
    if existing is not None:
        await require_linkable(connection, sso.connection, existing, profile)
        return FoundAccount(_require_active(existing))
    try:
        user = await user_store.create_user(
            connection, profile.email, profile.name, None, home_org_id=sso.connection.org_id
        )
    except EmailTaken:
        raise _account_exists(profile) from None
    return FoundAccount(user, created=True)


async def admit(connection: AsyncConnection, stored: StoredConnection, user: User, groups: frozenset[str]) -> Admission:
    """Make the user a member, or give the member the mapped role. Never grants OWNER, never takes it away, and never
    demotes the last administrator. Raises LoginRefused for an owner, unless an owner has confirmed the provider.
    Otherwise an administrator, who chooses the provider, could log in as an owner.
    """
    role = mapping.role_of(stored.role_mapping, stored.default_role, groups)
    member = await member_store.find_member(connection, stored.org_id, user.id)
    if member is not None and member.role is Role.OWNER and not stored.confirmed_by_owner:
        raise LoginRefused(
            "not_confirmed",
            "Before an owner can log in through this connection, an owner has to confirm its provider and certificates "
            "with a PUT of the connection.",
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
    """Link the account of a member, unless the subject is already linked. Returns the id of the identity. Raises
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
    has verified it, because some providers let users choose their address. Raises LoginRefused for a user that the
    directory has removed, and for an account that has become an owner, or a member of other organizations.
    """
    vouched = stored.protocol is Protocol.SAML or profile.email_verified
    found = await provisioned_users.find_for_login(connection, stored.org_id, subject, profile.email)
    if found is not None and not found.active:  # the user is refused by any address, and gets no new account
        raise LoginRefused("account_deactivated", "The organization's directory has deactivated the user.")
    if not vouched:
        found = await provisioned_users.find_for_login(connection, stored.org_id, subject, None)
    if found is None or found.principal_id is None or not found.owns_account:
        return None
    return await _require_directorys(connection, stored.org_id, found.principal_id)


async def _require_directorys(connection: AsyncConnection, org_id: str, principal_id: str) -> User:
    """The account that the directory has made. Raises LoginRefused if the account is by now an owner, or a member of
    other organizations. The administrator of the directory writes `externalId`, and could otherwise log in as it.
    """
    member = await member_store.find_member(connection, org_id, principal_id)
    if member is not None and member.role is Role.OWNER:
        raise LoginRefused("account_exists", "The user is now an owner, and has to link the account to the provider.")
    if await member_store.is_elsewhere(connection, org_id, principal_id):
        raise LoginRefused(
            "account_exists",
            "The user has joined other organizations, and has to link the account to the provider.",
        )
    return await user_store.get_user(connection, principal_id)


async def require_linkable(
    connection: AsyncConnection, stored: StoredConnection, existing: User, profile: mapping.Profile
) -> None:
    """Raises LoginRefused unless the address alone is sufficient to link the account."""
    member = await member_store.find_member(connection, stored.org_id, existing.id)
    proven = await domains.is_domain_verified(connection, stored.org_id, profile.email.rpartition("@")[2])
    verified = stored.protocol is Protocol.SAML or profile.email_verified
    if member is not None and member.role is Role.OWNER:
        raise LoginRefused(
            "account_exists",
            f"The account with the address {profile.email} belongs to an owner, who has to link it to this provider.",
        )
    if member is None or not proven:
        raise _account_exists(profile)
    if not verified:
        raise LoginRefused(
            "account_exists",
            f"A member has the address {profile.email}, but the provider does not confirm that it has verified the "
            "address.",
        )


async def require_unlinked(connection: AsyncConnection, stored: StoredConnection, user: User) -> None:
    """Raises LoginRefused for an account that is linked to another subject of the connection."""
    if await identities.find_identity_of_account(connection, stored.id, user.id) is not None:
        raise LoginRefused("account_linked", "The account is linked to another user of the provider.")


async def _find_requested(
    connection: AsyncConnection, stored: StoredConnection, identity: identities.LinkedIdentity | None, principal_id: str
) -> FoundAccount:
    """The account whose session has asked to be linked. Its address may differ from the provider's."""
    if await member_store.find_member(connection, stored.org_id, principal_id) is None:
        raise LoginRefused("link_not_member", "The account that asked to be linked is no longer a member.")
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
    """The result that a login through the connection would have. If a `subject` of SAML is an address, it counts as a
    NameID whose format says that it is an address.
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
    """The result for the subject, and the principal id of its account if it has one. Raises LoginRefused."""
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
