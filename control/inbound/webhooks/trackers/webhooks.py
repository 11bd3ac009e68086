"""`POST /webhooks/integrations/{integrationId}` (specification 4.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import Meta

from chassis.http.access import public
from chassis.http.route import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, check_length
from chassis.http.web import Route, json_response
from control.inbound.integrations.model import Hook
from control.inbound.webhooks.endpoint import IntegrationReceiver
from control.inbound.webhooks.hooks import Hooks
from control.inbound.webhooks.receiver import WebhookReceiver
from control.inbound.webhooks.trackers.apply import IntegrationResult
from control.inbound.webhooks.trackers.sources import TRACKER_SOURCES

MAX_ID_LENGTH: Final = 64
TAG: Final = Tag("webhooks", "Inbound webhooks. They need no token: each is authenticated by its signature.")
RECEIVE: Final = Operation(
    "receiveIntegrationWebhook",
    TAG,
    (ResponseSpec("What the event did.", json_content(IntegrationResult)),),
    (
        Parameter(
            "integrationId",
            "path",
            Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)],
            "The integration.",
        ),
    ),
    body=Body(json_content(dict[str, Any]), "As the platform sends it, with its signature in a header."),
    error_statuses=(400, 401, 404, 413, 429, 503),
)


@dataclass(frozen=True, slots=True)
class IntegrationWebhooks:
    """The handler of webhooks of trackers, and its dependencies."""

    receiver: WebhookReceiver
    integration_receiver: IntegrationReceiver
    hooks: Hooks

    def routes(self) -> list[Route]:
        """The route, which is public."""
        return [Route("POST", "/webhooks/integrations/{integrationId}", self.receive, public(), operation=RECEIVE)]

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Receive an event of a tracker.

        Signed as the platform of the integration signs; generic ones as Standard Webhooks, or with `X-Signature-256`.
        A repeated delivery gets the answer that the first one got. 404 for an integration that is disabled, or of
        source control, which sends to `/webhooks/scm/{provider}`.
        """
        integration_id = _integration_id(request)
        hook = await self.hooks.by_id(integration_id)
        source = None if hook is None else TRACKER_SOURCES.get(hook.integration.kind)
        if hook is None or source is None:
            await self.receiver.refuse_unknown(request)

        async def find() -> Sequence[Hook]:
            found = await self.hooks.by_id(integration_id)
            return [] if found is None else [found]

        processed = await self.integration_receiver.receive(request, hook.integration.kind, source, find)
        return json_response(processed.result)


def _integration_id(request: web.Request) -> str:
    """Raises BadRequest for one that is too long."""
    issues, text = Issues(), request.match_info["integrationId"]
    check_length("path.integrationId", text, 1, MAX_ID_LENGTH, issues)
    issues.raise_if_any("The path is not valid.")
    return text
