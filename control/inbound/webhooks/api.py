"""`POST /webhooks/scm/{provider}` and `POST /webhooks/integrations/{integrationId}` (specification 4.5)."""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import Meta

from chassis.errors import BadRequest, ServiceUnavailable, Unauthorized
from chassis.http.access import public
from chassis.http.route import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, check_length
from chassis.http.web import RATE_LIMITS, Route, json_response
from chassis.limits.limiter import Allowance, LimitClass
from control.inbound.integrations.store import new_event_id, pack_body
from control.inbound.integrations.tables import SOURCE_CONTROL, IntegrationKind, WebhookEndpoint
from control.inbound.webhooks.forges.bitbucket import Bitbucket
from control.inbound.webhooks.forges.effects import ScmResult, apply_forge_event, apply_plain_pushes
from control.inbound.webhooks.forges.gitea import FORGEJO, GITEA
from control.inbound.webhooks.forges.github import GitHub
from control.inbound.webhooks.forges.gitlab import GitLab
from control.inbound.webhooks.inbox import EndpointChanged, Inbox, VerifiedEvent
from control.inbound.webhooks.platform import Headers, PayloadError, WebhookSource
from control.inbound.webhooks.receiver import WebhookEndpoints, WebhookOutcome, WebhookReceiver
from control.inbound.webhooks.trackers.effects import IntegrationResult, apply_tracker_event
from control.inbound.webhooks.trackers.generic import Generic
from control.inbound.webhooks.trackers.platforms import Jira, Linear, PagerDuty
from control.secrets.secret_box import SecretBox

_ATTEMPTS: Final = 2  # the second one if the integration was changed meanwhile
MAX_WAITING_BYTES: Final = 64 * 2**20  # of large bodies that wait to be parsed
_MAX_PARSED_AT_ONCE: Final = 256 * 1_024  # bytes; parsing a larger body in the event loop would delay other requests
# The limit of bodies that an organization may store, in stored size, between runs of the housekeeping (`task`). An
# event beyond it is stored without its body, and cannot be processed again.
STORED_BURST_BYTES: Final = 64 * 2**20
STORED_BYTES_PER_S: Final = 256 * 2**10
MAX_PROVIDER_LENGTH: Final = 32
MAX_ID_LENGTH: Final = 64

SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.GITHUB: WebhookSource(GitHub(), apply_forge_event, apply_plain_pushes),
        IntegrationKind.GITLAB: WebhookSource(GitLab(), apply_forge_event, apply_plain_pushes),
        IntegrationKind.BITBUCKET: WebhookSource(Bitbucket(), apply_forge_event, apply_plain_pushes),
        IntegrationKind.GITEA: WebhookSource(GITEA, apply_forge_event, apply_plain_pushes),
        IntegrationKind.FORGEJO: WebhookSource(FORGEJO, apply_forge_event, apply_plain_pushes),
        IntegrationKind.LINEAR: WebhookSource(Linear(), apply_tracker_event),
        IntegrationKind.JIRA: WebhookSource(Jira(), apply_tracker_event),
        IntegrationKind.PAGERDUTY: WebhookSource(PagerDuty(), apply_tracker_event),
        IntegrationKind.GENERIC: WebhookSource(Generic(), apply_tracker_event),
    }
)
_PROVIDERS: Final[Mapping[str, IntegrationKind]] = {kind.value: kind for kind in SOURCE_CONTROL}

TAG: Final = Tag("webhooks", "Inbound webhooks: events of other systems, verified by their signatures.")
RECEIVE_SCM: Final = Operation(
    "receiveScmWebhook",
    TAG,
    (
        ResponseSpec(
            "The effects of the event. A repeated delivery gets the result of the first delivery.",
            json_content(ScmResult),
        ),
    ),
    (
        Parameter(
            "provider",
            "path",
            Annotated[str, Meta(min_length=1, max_length=MAX_PROVIDER_LENGTH)],
            "The platform: github, gitlab, bitbucket, gitea or forgejo.",
            example="github",
        ),
        Parameter(
            "hook",
            "query",
            Annotated[str, Meta(min_length=1)],
            "Id of the integration. Without it, the integration is found by the webhook id that the platform sends "
            "in a header.",
        ),
    ),
    body=Body(json_content(dict[str, Any]), "The event, in the format that the platform documents."),
    error_statuses=(400, 401, 404, 429, 503),
)
RECEIVE_INTEGRATION: Final = Operation(
    "receiveIntegrationWebhook",
    TAG,
    (ResponseSpec("The effects of the event.", json_content(IntegrationResult)),),
    (
        Parameter(
            "integrationId",
            "path",
            Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)],
            "Id of the integration.",
        ),
    ),
    body=Body(
        json_content(dict[str, Any]), "The event as the platform sends it, with the platform's signature in a header."
    ),
    error_statuses=(400, 401, 404, 413, 429, 503),
)


class IntegrationWebhooks:
    """Receives the webhook events of integrations."""

    def __init__(
        self, receiver: WebhookReceiver, endpoints: WebhookEndpoints, inbox: Inbox, secret_box: SecretBox
    ) -> None:
        self._receiver = receiver
        self._endpoints = endpoints
        self._inbox = inbox
        self._secret_box = secret_box
        self._parsing = asyncio.Semaphore(1)  # for large bodies: threads share one interpreter
        self._waiting_bytes = 0  # bytes of the bodies that are being parsed or wait for parsing
        self._storable_bytes = Allowance[str](STORED_BURST_BYTES, STORED_BYTES_PER_S)

    def routes(self) -> list[Route]:
        """The routes, for which the signature decides about access."""
        scm, integration = "/webhooks/scm/{provider}", "/webhooks/integrations/{integrationId}"
        return [
            Route("POST", scm, self.receive_scm_webhook, public(), operation=RECEIVE_SCM),
            Route("POST", integration, self.receive_integration_webhook, public(), operation=RECEIVE_INTEGRATION),
        ]

    async def receive_scm_webhook(self, request: web.Request) -> web.StreamResponse:
        """Receive an event of source control.

        The platform signs the body with the secret of the integration. Sluice verifies the signature before it parses
        the body. Pushes, pull or merge requests, releases, deployments and tickets have effects. Every other event is
        answered with zero counts.
        """
        provider, issues = request.match_info["provider"], Issues()
        check_length("path.provider", provider, 1, MAX_PROVIDER_LENGTH, issues)
        issues.raise_if_any()
        if provider not in _PROVIDERS:
            await self._receiver.refuse_unknown(request)
        return await self._receive(request, _PROVIDERS[provider])

    async def receive_integration_webhook(self, request: web.Request) -> web.StreamResponse:
        """Receive an event of a tracker.

        The event is signed in the way of the integration's platform. Generic events are signed as in Standard Webhooks,
        or with `X-Signature-256`. A repeated delivery gets the answer of the first one. 404 for a disabled integration,
        and for an integration of source control, which sends to `/webhooks/scm/{provider}`.
        """
        issues = Issues()
        check_length("path.integrationId", request.match_info["integrationId"], 1, MAX_ID_LENGTH, issues)
        issues.raise_if_any("The path is not valid.")
        return await self._receive(request, None)

    async def _receive(self, request: web.Request, provider: IntegrationKind | None) -> web.StreamResponse:
        """Find the integration, read the body, verify it, parse it, apply the event, answer. Raises NotFound,
        RateLimited, Unauthorized, BadRequest and the errors of reading a body.
        """
        body: bytes | None = None
        for _ in range(_ATTEMPTS):
            endpoints = await self._find(request, provider)
            if not endpoints:
                await self._receiver.refuse_unknown(request, provider or "unknown")
            kind = endpoints[0].integration.kind
            if body is None:
                await self._receiver.admit(request, endpoints[0].integration.id)
                body = await self._receiver.read(request)
            platform, now = SOURCES[kind].platform, time.time()
            endpoint = next((one for one in endpoints if platform.verify(request.headers, body, one, now)), None)
            if endpoint is None:
                await self._receiver.refuse_unsigned(request, kind, endpoints[0].integration.id)
            await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, endpoint.integration.id)
            try:
                processed = await self._inbox.process(await self._parse(endpoint, request.headers, body))
            except EndpointChanged:
                self._endpoints.forget(endpoint.integration.id)
                continue
            except PayloadError as error:
                self._receiver.metrics.count(kind, WebhookOutcome.INVALID)
                raise BadRequest(str(error)) from error
            except Exception:
                self._receiver.metrics.count(kind, WebhookOutcome.FAILED)
                raise
            self._receiver.metrics.count_processed(kind, duplicate=processed.duplicate)
            return json_response(processed.answer)
        raise Unauthorized("The integration was changed while the delivery was processed. Send it again.")

    async def _find(self, request: web.Request, provider: IntegrationKind | None) -> Sequence[WebhookEndpoint]:
        """Find the integrations that a request may be for. `provider`: the provider of source control, or None if the
        path names an integration.
        """
        names = [request.match_info["integrationId"]] if provider is None else request.query.getall("hook", [])
        if provider is not None and not names:
            hook_id = SOURCES[provider].platform.hook_id(request.headers)
            return [] if hook_id is None else await self._endpoints.by_header(provider, hook_id)
        endpoint = await self._endpoints.by_id(names[0]) if len(names) == 1 else None
        if endpoint is None:
            return []
        kind = endpoint.integration.kind
        is_wanted = not kind.is_source_control if provider is None else kind is provider
        return [endpoint] if is_wanted else []

    async def _parse(self, endpoint: WebhookEndpoint, headers: Headers, body: bytes) -> VerifiedEvent:
        """Parse a body. Raises the errors of `_parsed`, and ServiceUnavailable if too many large bodies wait for
        parsing.
        """
        if len(body) <= _MAX_PARSED_AT_ONCE:
            return self._parsed(endpoint, headers, body)
        if self._waiting_bytes + len(body) > MAX_WAITING_BYTES:
            raise ServiceUnavailable("Too many large webhooks are waiting to be processed.")
        self._waiting_bytes += len(body)
        try:
            async with self._parsing:
                return await asyncio.to_thread(self._parsed, endpoint, headers, body)
        finally:
            self._waiting_bytes -= len(body)

    def _parsed(self, endpoint: WebhookEndpoint, headers: Headers, body: bytes) -> VerifiedEvent:
        """Parse the body. Raises PayloadError if the body does not even name an event: there is nothing to store
        then.
        """
        org_id, source = endpoint.integration.org_id, SOURCES[endpoint.integration.kind]
        name, event_id = source.platform.event_name(headers, body), new_event_id()
        key = source.platform.delivery_id(headers) or hashlib.sha256(body).hexdigest()
        content = source.platform.read(name, body, datetime.now(UTC))
        packed = pack_body(self._secret_box, org_id, event_id, body)
        if packed is not None and not self._storable_bytes.take(org_id, len(packed)):
            packed = None
        return VerifiedEvent(event_id, endpoint, key, name, packed, source, content)
