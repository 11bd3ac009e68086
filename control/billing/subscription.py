"""`GET /orgs/{orgSlug}/subscription`: plan, status and quota of the organization's subscription."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, ResponseSpec, Tag, json_content
from chassis.http.web import Route, json_response
from control.billing import repository
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
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
SHOW: Final = Operation(
    "showSubscription", TAG, (ResponseSpec("The subscription.", json_content(Subscription)),), error_statuses=(404,)
)


@dataclass(frozen=True, slots=True)
class OrganizationSubscription:
    """The handler of subscriptions, and its dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """The route with its scope: whoever sees the quota sees where it is from, the role BILLING among them."""
        return [
            Route("GET", "/orgs/{orgSlug}/subscription", self.show, bearer(Scope.PROJECTS_READ), operation=SHOW),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show the subscription. 404 if the organization has none."""
        async with self.context.database.read() as connection:
            found = await repository.find_by_organization(connection, authorization_context(request).org_id)
        if found is None or found.status is None:
            raise NotFound
        end = found.current_period_end
        return json_response(
            Subscription(found.plan, found.status, found.monthly_items, None if end is None else format_time(end))
        )
