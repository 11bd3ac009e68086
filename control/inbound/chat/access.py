"""What a chat user may do: what its principal may at this moment, or nothing. Every function runs in the caller's
transaction; who writes calls it in the transaction of the change.
"""

from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.membership_status import any_disabled, common_scopes, load_membership_statuses
from chassis.auth.model import AuthorizationContext
from chassis.errors import Forbidden
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatUser, StoredChatLink
from control.identity.users import session_store
from proto.identity import PrincipalKind, Scope

LEFT: Final = "You are no longer a member of the organization that your chat user is linked with."
SSO_REQUIRED: Final = (
    "The organization requires single sign-on: log in through the identity provider and link your chat user again."
)


class AccessLost(Exception):
    """The link works no more, or not now. The message is for the chat user."""


async def find_access(
    connection: AsyncConnection, user: ChatUser
) -> tuple[StoredChatLink, AuthorizationContext] | None:
    """The link of the chat user and what it may do; None if it is not linked. Raises AccessLost."""
    found = await link_repository.find_of_user(connection, user)
    if found is None:
        return None
    link, org_slug = found
    return link, await load_access(connection, link, org_slug)


async def load_access(connection: AsyncConnection, link: StoredChatLink, org_slug: str) -> AuthorizationContext:
    """The live rights of the link's principal; `token_id` is the id of the link. As for sessions, an organization that
    enforces single sign-on accepts links of sessions that a provider vouched for, and of the owner who keeps a way in.
    Raises AccessLost.
    """
    found = await load_membership_statuses(connection, link.org_id, [link.principal_id])
    scopes, status = common_scopes(found, None), found[link.principal_id]
    if scopes is None or status.role is None or any_disabled(found) or status.kind is not PrincipalKind.USER:
        raise AccessLost(LEFT)
    if not await _permits(connection, link):
        raise AccessLost(SSO_REQUIRED)
    return AuthorizationContext(link.principal_id, link.id, link.org_id, org_slug, status.role, scopes)


def require_scope(access: AuthorizationContext, *wanted: Scope) -> None:
    """Raises Forbidden without one of the scopes."""
    if access.scopes.isdisjoint(wanted):
        raise Forbidden(f"Your role in {access.org_slug} lacks {' or '.join(sorted(wanted))}.")


async def _permits(connection: AsyncConnection, link: StoredChatLink) -> bool:
    """The same as `enforcement.permits` for a session."""
    if link.is_federated or not await session_store.requires_sso(connection, link.org_id):
        return True
    return await session_store.find_break_glass(connection, link.org_id) == link.principal_id
