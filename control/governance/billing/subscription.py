"""`GET /orgs/{orgSlug}/subscription`: plan, status and quota of the organization's subscription."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import declared_routes, route
from chassis.http.route import Tag
from chassis.http.web import Route
from control.governance.billing import repository
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.routing.arguments import control_arguments
from control.routing.resource import shown_as
from proto.identity import Scope


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    """The organization's subscription at the payment processor."""

    plan: Annotated[str | None, Meta(description="Name of the plan; null: none so far.")]
    status: Annotated[str, Meta(description="The processor's own value, such as `active` or `past_due`.")]
    monthly_items: Annotated[
        int | None, Meta(description="Monthly quota that the plan gives; 0: unlimited; null: none so far.")
    ]
    current_period_end: Annotated[Timestamp | None, Meta(description="When the paid period ends.")]


TAG: Final = Tag("billing", "The organization's subscription at the payment processor.")


@dataclass(frozen=True, slots=True)
class OrganizationSubscription:
    """The handler of subscriptions, and its dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    # Its scope: whoever sees the quota sees where it is from, the role BILLING among them.
    @route("GET", "/orgs/{orgSlug}/subscription", bearer(Scope.PROJECTS_READ), errors=(404,))
    async def show_subscription(self, caller: AuthorizationContext, connection: AsyncConnection) -> Subscription:
        """Show the subscription. 404 if the organization has none."""
        found = await repository.find_by_organization(connection, caller.org_id)
        if found is None or found.status is None:
            raise NotFound
        return shown_as(Subscription, found)
