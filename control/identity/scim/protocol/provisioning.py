"""The consequences of a directory's user: an account, a membership and a role, and their end when the user is removed.

    create, change    the user as the directory describes it now
    remove            the directory has deleted the user

An active user gets an account as soon as one of its addresses is valid for an account: the account of a member who has
the address already, or a new account. The directory decides about memberships and roles, except for owners. Only owners
change owners, and the directory can remove neither an owner nor the last administrator. Each function runs in the
caller's transaction.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from aiohttp import web
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import owned_principals
from chassis.auth.model import DirectoryIdentity
from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.http.web import request_id
from control.approvals import store as approvals
from control.audit.record import Actor, record
from control.audit.tables import audit_heads
from control.identity.directory import group_store, user_store
from control.identity.directory.user_store import ProvisionedEmail, ProvisionedUser
from control.identity.members import invitations, member_store
from control.identity.organizations import organization_store
from control.identity.scim import options
from control.identity.scim.messages import NotUnique, Refused
from control.identity.sso.login import login_store
from control.identity.users import user_store as account_repository
from proto.identity import PrincipalKind, Role

MAX_USERS: Final = 500_000  # per directory
_NAME_TAKEN: Final = "Another user has this userName."


@dataclass(frozen=True, slots=True)
class DirectoryCall:
    """The source of a change: the directory of an organization, in a request."""

    actor: Actor
    org_slug: str
    request_id: str
    now: datetime

    @property
    def org_id(self) -> str:
        """The id of the organization."""
        return self.actor.org_id


def call_of(request: web.Request, identity: DirectoryIdentity) -> DirectoryCall:
    """The directory as the actor of the audit log, and the time of the request."""
    actor = Actor(identity.org_id, token_id=identity.token_id)
    return DirectoryCall(actor, identity.org_slug, request_id(request), datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The user as it is stored now. `access_changed`: the caller must notify the guards."""

    user: ProvisionedUser
    access_changed: bool


@dataclass(frozen=True, slots=True)
class UserDescription:
    """A user as the directory describes it: the stored data without its id and its account."""

    values: dict[str, Any]
    emails: list[ProvisionedEmail]
    account_email: str | None
    account_name: str


async def create(connection: AsyncConnection, call: DirectoryCall, description: UserDescription) -> Provisioned:
    """Create a user. Raises InvalidValue, NotUnique, Refused."""
    await _require_room(connection, call.org_id)
    now = to_milliseconds(call.now)
    user = ProvisionedUser(
        id=new_id("scu"),
        org_id=call.org_id,
        principal_id=None,
        owns_account=False,
        version=1,
        created_at=now,
        updated_at=now,
        **description.values,
    )
    try:
        await user_store.insert(connection, user, description.emails)
    except exc.IntegrityError:
        raise NotUnique(_NAME_TAKEN) from None
    provisioned = await _conclude(connection, call, user, description)
    await _record(connection, call, "scim.user.create", provisioned.user)
    return provisioned


async def change(
    connection: AsyncConnection, call: DirectoryCall, before: ProvisionedUser, description: UserDescription
) -> Provisioned:
    """Change the description of a user. Nothing is written if the description is the same. Raises InvalidValue,
    NotUnique, Refused.
    """
    user = replace(before, **description.values)
    if user != before:
        try:
            user = await user_store.update(connection, user, description.emails, to_milliseconds(call.now))
        except exc.IntegrityError:
            raise NotUnique(_NAME_TAKEN) from None
    provisioned = await _conclude(connection, call, user, description)
    if user.version != before.version:
        action = {(True, False): "deactivate", (False, True): "activate"}.get((before.active, user.active), "update")
        await _record(connection, call, f"scim.user.{action}", provisioned.user)
    return provisioned


async def remove(connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser) -> bool:
    """Delete the user, and close its account if the account is confined to the organization. Returns whether access has
    changed. Raises Refused.
    """
    ended = await _take_out(connection, call, user)
    groups = await group_store.list_group_ids(connection, user.id)
    await user_store.delete(connection, user.id)
    await group_store.touch(connection, groups, to_milliseconds(call.now))
    principal_id = user.principal_id
    if principal_id is not None and await member_store.find_member(connection, user.org_id, principal_id) is None:
        await account_repository.leave_home(connection, principal_id, call.org_id)
    await _record(connection, call, "scim.user.delete", user)
    return ended


async def _conclude(
    connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser, description: UserDescription
) -> Provisioned:
    """Update the account and the membership of the user."""
    if not user.active:
        return Provisioned(user, await _take_out(connection, call, user))
    if user.principal_id is not None and await _is_closed(connection, user.principal_id):
        user = replace(user, principal_id=None, owns_account=False)  # removed by an administrator: needs a new account
    had_account = user.principal_id is not None
    if not had_account:
        user = await _with_account(connection, call, user, description)
    elif user.owns_account:
        await _update_account(connection, user, description)
    if user.principal_id is None:
        return Provisioned(user, access_changed=False)
    if not had_account and user.owns_account:  # a new account: it is not a member yet, and has no credentials
        await _add_member(connection, call, user)
        return Provisioned(user, access_changed=False)
    return Provisioned(user, await _admit(connection, call, user))


async def _with_account(
    connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser, description: UserDescription
) -> ProvisionedUser:
    """The user with an account, if one of its addresses is valid for an account."""
    if description.account_email is None:
        return user
    existing = await account_repository.find_in_organization(connection, description.account_email, call.org_slug)
    if existing is not None:
        if await user_store.find_by_principal(connection, call.org_id, existing.id) is not None:
            raise NotUnique(f"Another user has the account with the address {description.account_email}.")
        principal_id, owns_account = existing.id, False
    else:
        try:
            made = await account_repository.create_user(
                connection, description.account_email, description.account_name, None, home_org_id=call.org_id
            )
        except account_repository.EmailTaken:
            raise _address_taken(description.account_email) from None
        principal_id, owns_account = made.id, True
    await user_store.set_principal(connection, user.id, principal_id, owns_account=owns_account)
    return replace(user, principal_id=principal_id, owns_account=owns_account)


async def _update_account(connection: AsyncConnection, user: ProvisionedUser, description: UserDescription) -> None:
    """Update name and address of an account that the directory made. An address that the user has verified is not
    changed. The account of an owner, or of a member of other organizations, is not changed at all.
    """
    if user.principal_id is None:
        return
    member = await member_store.find_member(connection, user.org_id, user.principal_id)
    if member is not None and member.role is Role.OWNER:
        return
    if await member_store.is_elsewhere(connection, user.org_id, user.principal_id):
        return
    account = await account_repository.get_user(connection, user.principal_id)
    email = description.account_email
    moves = email is not None and email != account.email and not account.email_verified
    try:
        await account_repository.change_user(
            connection, account.id, name=description.account_name, values={"email": email} if moves else {}
        )
    except exc.IntegrityError:
        raise _address_taken(email or "") from None


async def _admit(connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser) -> bool:
    """Make the user a member that the directory manages, with the role of its groups. Returns whether it is new."""
    principal_id = user.principal_id or ""
    member = await member_store.find_member(connection, call.org_id, principal_id)
    if member is not None and member.role is Role.OWNER:
        return False
    if member is not None and member.managed:
        return await options.update_roles(connection, call.actor, [user.id], call.request_id)
    if member is None:
        await _add_member(connection, call, user)
        return True
    await member_store.set_managed(connection, call.org_id, principal_id, managed=True)
    await _record_admission(connection, call, user, member.role, existing=True)
    await options.update_roles(connection, call.actor, [user.id], call.request_id)
    return True


async def _add_member(connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser) -> None:
    role = await options.role_for(connection, call.org_id, user.id)
    try:
        await organization_store.add_membership(connection, call.org_id, user.principal_id or "", role, managed=True)
    except Conflict as error:
        raise Refused(error.message) from error
    await _record_admission(connection, call, user, role, existing=False)


async def _record_admission(
    connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser, role: Role, *, existing: bool
) -> None:
    data = {"role": role.value, "by": user.id, "existing": existing}
    await record(connection, call.actor, "scim.member.admit", user.principal_id or "", data, call.request_id)


async def _take_out(connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser) -> bool:
    """End the membership, and revoke open invitations to the user's addresses, which would give a new membership.
    Returns whether there was a membership. Raises Refused.
    """
    ended = await _suspend(connection, call, user)
    addresses = await _addresses(connection, user)
    for one in await invitations.revoke_addressed(connection, call.org_id, addresses, call.now):
        await record(connection, call.actor, "invitation.revoke", one, {"by": user.id}, call.request_id)
    return ended


async def _addresses(connection: AsyncConnection, user: ProvisionedUser) -> list[str]:
    """All addresses to which an invitation of the user may have been sent."""
    found = [user.user_name, *await user_store.list_addresses(connection, user.id)]
    if user.principal_id is not None:
        found.append((await account_repository.get_user(connection, user.principal_id)).email)
    return found


async def _is_closed(connection: AsyncConnection, principal_id: str) -> bool:
    """Whether the account is permanently closed, like the account of a removed member."""
    account = await account_repository.get_user(connection, principal_id)
    return account.home_org_id is None and not account.email_verified


async def _suspend(connection: AsyncConnection, call: DirectoryCall, user: ProvisionedUser) -> bool:
    """End the membership, with everything that depends on it. Returns whether there was one. Raises Refused for an
    owner, and for the last administrator.
    """
    if user.principal_id is None:
        return False
    member = await member_store.find_member(connection, call.org_id, user.principal_id)
    if member is None:
        return False
    if member.role is Role.OWNER:
        raise Refused("The user is an owner of the organization. Another owner has to change the role first.")
    if not await member_store.has_other_administrators(connection, call.org_id, member):
        raise Refused(
            "The user is the last administrator of the organization. Make another member an administrator first."
        )
    data = await _hand_over(connection, call, member)
    them = owned_principals(member.id)
    data["withdrawnApprovals"] = await approvals.withdraw_approvals(connection, call.org_id, them, call.now)
    await member_store.end_membership(connection, call.org_id, member.id, call.now)
    await login_store.forget_links(connection, call.org_id, member.id)
    data |= {"role": member.role.value, "by": user.id}
    await record(connection, call.actor, "scim.member.suspend", member.id, data, call.request_id)
    return True


async def _hand_over(
    connection: AsyncConnection, call: DirectoryCall, member: member_store.StoredMember
) -> dict[str, Any]:
    """Give the member's agents and services to the organization's successor, or retire them. In both cases their
    credentials end. Returns the result, for the audit log.
    """
    owned = await member_store.list_owned(connection, call.org_id, member.id)
    successor = await _find_successor(connection, call.org_id, member)
    given: list[str] = []
    if successor is not None:
        for machine in owned:
            if machine.owner_id != member.id:  # its owner is transferred or retired
                continue
            try:
                await member_store.transfer_ownership(connection, call.org_id, machine, successor, call.now)
            except Conflict:  # the successor would own too many agents and services
                break
            given.append(machine.id)
    left = await member_store.list_owned(connection, call.org_id, member.id)
    for machine in left:
        await member_store.retire_machine(connection, call.org_id, machine.id, call.now)
    data: dict[str, Any] = {"retired": [machine.id for machine in left]}
    if successor is not None:
        data |= {"successor": successor.id, "handedOver": given}
    return data


async def _find_successor(
    connection: AsyncConnection, org_id: str, member: member_store.StoredMember
) -> member_store.StoredMember | None:
    """The successor, if it can own agents: another user who is a member."""
    successor_id = await options.find_successor(connection, org_id)
    if successor_id is None or successor_id == member.id:
        return None
    found = await member_store.find_member(connection, org_id, successor_id)
    return found if found is not None and found.kind is PrincipalKind.USER else None


async def _require_room(connection: AsyncConnection, org_id: str) -> None:
    """Raises Refused at MAX_USERS. Counting users takes longer the more there are, and a first sync would count for
    every user. Each new user is an event of the audit log, so users are counted only if the audit log has at least as
    many events as there may be users.
    """
    events = sa.select(audit_heads.c.seq).where(audit_heads.c.org_id == org_id)
    if (await connection.scalar(events) or 0) < MAX_USERS:
        return
    if await user_store.count(connection, org_id) >= MAX_USERS:
        raise Refused(f"A directory can have at most {MAX_USERS} users.")


async def _record(connection: AsyncConnection, call: DirectoryCall, action: str, user: ProvisionedUser) -> None:
    data = {"userName": user.user_name, "active": user.active, "principalId": user.principal_id or ""}
    await record(connection, call.actor, action, user.id, data, call.request_id)


def _address_taken(email: str) -> NotUnique:
    return NotUnique(f"Another account of the organization has the address {email}.")
