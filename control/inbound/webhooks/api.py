"""`POST /webhooks/scm/{provider}` and `POST /webhooks/integrations/{integrationId}` (specification 4.5)."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import BadRequest, ServiceUnavailable, Unauthorized
from chassis.http.access import public
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, check_length
from chassis.http.web import RATE_LIMITS, Route, json_response
from chassis.limits.limiter import LimitClass
from control.inbound.integrations.store import new_event_id, pack_body
from control.inbound.integrations.tables import SOURCE_CONTROL, Hook, Integration, IntegrationKind, StoredWebhookEvent
from control.inbound.webhooks.body_allowance import BodyAllowance
from control.inbound.webhooks.forges.bitbucket import Bitbucket
from control.inbound.webhooks.forges.effects import ScmResult, record_forge_event, record_plain_pushes
from control.inbound.webhooks.forges.gitea import FORGEJO, GITEA
from control.inbound.webhooks.forges.github import GitHub
from control.inbound.webhooks.forges.gitlab import GitLab
from control.inbound.webhooks.inbox import ApplyTogether, HookChanged, Inbox, ProcessedEvent, VerifiedEvent
from control.inbound.webhooks.metrics import WebhookOutcome
from control.inbound.webhooks.platform import Headers, PayloadError, Platform
from control.inbound.webhooks.receiver import Hooks, WebhookReceiver
from control.inbound.webhooks.trackers.effects import IntegrationResult, record_tracker_event
from control.inbound.webhooks.trackers.generic import Generic
from control.inbound.webhooks.trackers.jira import Jira
from control.inbound.webhooks.trackers.linear import Linear
from control.inbound.webhooks.trackers.pagerduty import PagerDuty
from control.secrets.secret_box import SecretBox

_ATTEMPTS: Final = 2  # the second with an integration that was changed meanwhile
MAX_WAITING_BYTES: Final = 64 * 2**20  # of large bodies
_MAX_PARSED_AT_ONCE: Final = 256 * 1_024  # bytes; parsing more would keep other requests waiting


@dataclass(frozen=True, slots=True)
class WebhookSource:
    """A platform, and what its events do."""

    platform: Platform[Any]
    apply: Callable[[AsyncConnection, Integration, Any, datetime], Awaitable[msgspec.Struct]]
    apply_together: ApplyTogether | None = None


class IntegrationReceiver:
    """Verifies and processes what is sent to integrations."""

    def __init__(self, receiver: WebhookReceiver, hooks: Hooks, inbox: Inbox, secret_box: SecretBox) -> None:
        self._receiver = receiver
        self._hooks = hooks
        self._inbox = inbox
        self._secret_box = secret_box
        self._parsing = asyncio.Semaphore(1)  # of large bodies: threads share one interpreter
        self._waiting_bytes = 0  # of those that are parsed, or wait for it
        self._body_allowance = BodyAllowance()

    async def receive(
        self,
        request: web.Request,
        kind: IntegrationKind,
        source: WebhookSource,
        find: Callable[[], Awaitable[Sequence[Hook]]],
    ) -> ProcessedEvent:
        """Read, verify and process one request. `find`: the integrations that it may be for.

        Raises RateLimited, NotFound, Unauthorized, BadRequest and what reading a body raises.
        """
        hooks, body = await find(), None
        for _ in range(_ATTEMPTS):
            if not hooks:
                await self._receiver.refuse_unknown(request, kind.value)
            if body is None:
                await self._receiver.admit(request, hooks[0].integration.id)
                body = await self._receiver.read(request)
            signed = (one for one in hooks if source.platform.verify(request.headers, body, one, time.time()))
            hook = next(signed, None)
            if hook is None:
                await self._receiver.refuse_unsigned(request, kind.value, hooks[0].integration.id)
            await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, hook.integration.id)
            try:
                return await self._process(hook, source, request, body)
            except HookChanged:
                self._hooks.forget(hook.integration.id)
                hooks = await find()
        raise Unauthorized("The integration has just been changed.")

    async def redeliver(
        self, hook: Hook, source: WebhookSource, stored: StoredWebhookEvent, body: bytes
    ) -> ProcessedEvent:
        """Process a stored delivery again. Raises as `receive`, and HookChanged."""
        try:
            parsed = await asyncio.to_thread(source.platform.parse, stored.event, body, stored.received_at)
            apply = _applying(source, hook, parsed)
        except PayloadError as error:
            apply = _refusing(error)
        delivery = VerifiedEvent(stored.id, hook, stored.delivery_key, stored.event, None, apply, stored)
        return await self._inbox.process(delivery)

    async def _process(self, hook: Hook, source: WebhookSource, request: web.Request, body: bytes) -> ProcessedEvent:
        metrics, kind = self._receiver.metrics, hook.integration.kind.value
        try:
            delivery = await self._delivery(hook, source, request.headers, body)
            if delivery.body is not None and not self._body_allowance.take(hook.integration.org_id, len(delivery.body)):
                delivery = replace(delivery, body=None)
            processed = await self._inbox.process(delivery)
        except PayloadError as error:
            metrics.count(kind, WebhookOutcome.INVALID)
            raise BadRequest(str(error)) from error
        except HookChanged:
            raise
        except Exception:
            metrics.count(kind, WebhookOutcome.FAILED)
            raise
        metrics.count(kind, WebhookOutcome.DUPLICATE if processed.duplicate else WebhookOutcome.PROCESSED)
        return processed

    async def _delivery(self, hook: Hook, source: WebhookSource, headers: Headers, body: bytes) -> VerifiedEvent:
        """Raises as `_parsed`, and ServiceUnavailable if too much waits to be parsed."""
        if len(body) <= _MAX_PARSED_AT_ONCE:
            return self._parsed(hook, source, headers, body)
        if self._waiting_bytes + len(body) > MAX_WAITING_BYTES:
            raise ServiceUnavailable("Too many large webhooks wait to be processed.")
        self._waiting_bytes += len(body)
        try:
            async with self._parsing:
                return await asyncio.to_thread(self._parsed, hook, source, headers, body)
        finally:
            self._waiting_bytes -= len(body)

    def _parsed(self, hook: Hook, source: WebhookSource, headers: Headers, body: bytes) -> VerifiedEvent:
        """Raises PayloadError for a body without event: there is nothing to store of it."""
        platform, integration = source.platform, hook.integration
        event = platform.event_name(headers, body)
        delivery_id = new_event_id()
        key = platform.delivery_id(headers) or hashlib.sha256(body).hexdigest()
        sealed = pack_body(self._secret_box, integration.org_id, delivery_id, body)
        try:
            parsed = platform.parse(event, body, datetime.now(UTC))
        except PayloadError as error:
            return VerifiedEvent(delivery_id, hook, key, event, sealed, _refusing(error))
        apply = _applying(source, hook, parsed)
        return VerifiedEvent(
            delivery_id, hook, key, event, sealed, apply, apply_together=source.apply_together, content=parsed
        )


def _applying(
    source: WebhookSource, hook: Hook, parsed: Any
) -> Callable[[AsyncConnection, datetime], Awaitable[msgspec.Struct]]:
    async def apply(connection: AsyncConnection, now: datetime) -> msgspec.Struct:
        return await source.apply(connection, hook.integration, parsed, now)

    return apply


def _refusing(error: PayloadError) -> Callable[[AsyncConnection, datetime], Awaitable[msgspec.Struct]]:
    async def apply(_connection: AsyncConnection, _now: datetime) -> msgspec.Struct:
        raise error

    return apply


SCM_SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.GITHUB: WebhookSource(GitHub(), record_forge_event, record_plain_pushes),
        IntegrationKind.GITLAB: WebhookSource(GitLab(), record_forge_event, record_plain_pushes),
        IntegrationKind.BITBUCKET: WebhookSource(Bitbucket(), record_forge_event, record_plain_pushes),
        IntegrationKind.GITEA: WebhookSource(GITEA, record_forge_event, record_plain_pushes),
        IntegrationKind.FORGEJO: WebhookSource(FORGEJO, record_forge_event, record_plain_pushes),
    }
)


TRACKER_SOURCES: Final[Mapping[IntegrationKind, WebhookSource]] = MappingProxyType(
    {
        IntegrationKind.LINEAR: WebhookSource(Linear(), record_tracker_event),
        IntegrationKind.JIRA: WebhookSource(Jira(), record_tracker_event),
        IntegrationKind.PAGERDUTY: WebhookSource(PagerDuty(), record_tracker_event),
        IntegrationKind.GENERIC: WebhookSource(Generic(), record_tracker_event),
    }
)


MAX_PROVIDER_LENGTH: Final = 32
TAG: Final = Tag("webhooks", "Inbound webhooks: events of other systems, verified by their signatures.")
_PROVIDER_PARAMETER: Final = Parameter(
    "provider",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_PROVIDER_LENGTH)],
    "The platform: github, gitlab, bitbucket, gitea or forgejo.",
    example="github",
)
_HOOK_PARAMETER: Final = Parameter(
    "hook",
    "query",
    Annotated[str, Meta(min_length=1)],
    "Id of the integration. Without it, the header counts in which the platform names the webhook.",
)
RECEIVE_SCM: Final = Operation(
    "receiveScmWebhook",
    TAG,
    (ResponseSpec("What the event did; for a repeated delivery, what it had done.", json_content(ScmResult)),),
    (_PROVIDER_PARAMETER, _HOOK_PARAMETER),
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
        return [Route("POST", "/webhooks/scm/{provider}", self.receive, public(), operation=RECEIVE_SCM)]

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


MAX_ID_LENGTH: Final = 64
_TRACKER_TAG: Final = Tag("webhooks", "Inbound webhooks. They need no token: each is authenticated by its signature.")
RECEIVE_INTEGRATION: Final = Operation(
    "receiveIntegrationWebhook",
    _TRACKER_TAG,
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
        return [
            Route(
                "POST", "/webhooks/integrations/{integrationId}", self.receive, public(), operation=RECEIVE_INTEGRATION
            )
        ]

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
