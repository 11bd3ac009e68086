"""`/orgs/{orgSlug}/sso/identities`: which user of a provider is which member; list, unlink."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import sqlalchemy as sa

from chassis.auth.model import AuthorizationContext
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, route
from control.http.context import HandlerContext
from control.identity.sso import identity_repository as store
from control.identity.sso import settings_repository
from control.identity.sso.identity_repository import LinkedIdentity, identity_body
from control.identity.sso.tables import sso_identities
from control.routing.arguments import Transaction
from control.routing.resource import PageReader, Resource, ids, in_organization
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/sso/identities"
IDENTITIES: Final = Resource(
    "identityId",
    ids("ssi"),
    Scope.SSO_READ,
    sso_identities.c.id,
    in_organization(sso_identities),
    sa.select(sso_identities),
    lambda row, _caller: identity_body(row),
)


@dataclass(frozen=True, slots=True)
class Identities:
    """Handlers of identities, and their dependencies."""

    context: HandlerContext

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def list_sso_identities(self, caller: AuthorizationContext, page: PageReader) -> PageOf[LinkedIdentity]:
        """List which users of the organization's providers are which members."""
        fetch = partial(store.list_identities, org_id=caller.org_id)
        return await page.read(("sso identities", caller.org_id), fetch, identity_body)

    @route("DELETE", PATH + "/{identityId}", bearer(Scope.SSO_WRITE))
    async def unlink_sso_identity(self, identity_id: str, transaction: Transaction) -> None:
        """Unlink a user of a provider from a member, whose sessions of single sign-on end.

        The member stays. At the next login the provider's user is somebody new, and has to be linked again. Only users
        may.
        """
        connection, caller = transaction.connection, transaction.caller
        found = await IDENTITIES.show(connection, caller, identity_id)
        await settings_repository.end_federated_sessions_of(
            connection, caller.org_id, found.principal_id, datetime.now(UTC)
        )
        await IDENTITIES.delete(connection, identity_id)
        data = {"principalId": found.principal_id, "connectionId": found.connection_id}
        await transaction.record("sso.unlink", identity_id, data)
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)
