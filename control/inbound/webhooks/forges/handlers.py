"""`POST /webhooks/scm/{provider}`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import Meta

from chassis.http.access import public
from chassis.http.route import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, check_length
from chassis.http.web import Route, json_response
from control.inbound.integrations.model import SOURCE_CONTROL, Hook, IntegrationKind
from control.inbound.webhooks.endpoint import IntegrationReceiver
from control.inbound.webhooks.forges.schemas import ScmResult
from control.inbound.webhooks.forges.sources import SCM_SOURCES
from control.inbound.webhooks.hooks import Hooks
from control.inbound.webhooks.receiver import WebhookReceiver

MAX_PROVIDER_LENGTH: Final = 32
TAG: Final = Tag("webhooks", "Inbound webhooks: events of other systems, verified by their signatures.")
_PROVIDER: Final = Parameter(
    "provider",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_PROVIDER_LENGTH)],
    "The platform: github, gitlab, bitbucket, gitea or forgejo.",
    example="github",
)
_HOOK: Final = Parameter(
    "hook",
    "query",
    Annotated[str, Meta(min_length=1)],
    "Id of the integration. Without it, the header counts in which the platform names the webhook.",
)
RECEIVE: Final = Operation(
    "receiveScmWebhook",
    TAG,
    (ResponseSpec("What the event did; for a repeated delivery, what it had done.", json_content(ScmResult)),),
    (_PROVIDER, _HOOK),
    body=Body(json_content(dict[str, Any]), "The event, as the platform documents it."),
    error_statuses=(400, 401, 404, 429),
)


@dataclass(frozen=True, slots=True)
class ScmWebhooks:
    """Receives the events of source control."""

    receiver: WebhookReceiver
    integration_receiver: IntegrationReceiver
    hooks: Hooks

    def routes(self) -> list[Route]:
        """The route; its access is decided by the signature."""
        return [Route("POST", "/webhooks/scm/{provider}", self.receive, public(), operation=RECEIVE)]

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Receive an event of source control.

        The platform signs the body with the secret of the integration; nothing of it is read before the signature
        holds. Pushes, pull or merge requests, releases, deployments and tickets have an effect; every other event is
        answered with zero counts.
        """
        kind = await self._kind(request)
        source = SCM_SOURCES[kind]

        async def find() -> Sequence[Hook]:
            named = request.query.getall("hook", None)
            if named is None:
                hook_id = source.platform.hook_id(request.headers)
                return [] if hook_id is None else await self.hooks.by_header(kind, hook_id)
            hook = await self.hooks.by_id(named[0]) if len(named) == 1 else None
            return [] if hook is None or hook.integration.kind is not kind else [hook]

        processed = await self.integration_receiver.receive(request, kind, source, find)
        return json_response(processed.result)

    async def _kind(self, request: web.Request) -> IntegrationKind:
        """The platform in the path. Raises BadRequest, NotFound."""
        provider, issues = request.match_info["provider"], Issues()
        check_length("path.provider", provider, 1, MAX_PROVIDER_LENGTH, issues)
        issues.raise_if_any()
        kind = _PROVIDERS.get(provider)
        return kind if kind is not None else await self.receiver.refuse_unknown(request)


_PROVIDERS: Final[Mapping[str, IntegrationKind]] = {kind.value: kind for kind in SOURCE_CONTROL}
