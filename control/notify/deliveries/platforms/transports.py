"""Sends a message to a channel of any kind, over the network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from control.notify.channels.config import Config, EmailConfig, Kind
from control.notify.deliveries.platforms import chats, email, webhooks
from control.notify.deliveries.rules import AttemptResult, HttpRequest, OutgoingMessage, from_failure, from_reply
from control.outbound.egress import Egress, EgressError, HttpReply
from control.outbound.mail_server import MailServer


@dataclass(frozen=True, slots=True)
class Transports:
    """The guarded client for tenants' URLs, the client for the mail server, the mail server, and the platforms' base
    URLs.
    """

    egress: Egress
    mail_egress: Egress
    mail: MailServer | None
    chat_a_api: str
    pager_url: str


class _HttpPlatform(NamedTuple):
    build_request: Callable[[Any, OutgoingMessage, Transports], HttpRequest]
    interpret_reply: Callable[[Any, HttpReply, datetime], AttemptResult]


async def send(kind: Kind, config: Config, outgoing: OutgoingMessage, transports: Transports) -> AttemptResult:
    """Make one attempt. It ends within the limits of `control.outbound.egress` and raises nothing for errors of the
    receiver.
    """
    if isinstance(config, EmailConfig):
        return await email.send(config, outgoing, transports.mail_egress, transports.mail)
    result = await _post(_HTTP_PLATFORMS[kind], config, outgoing, transports)
    if kind is Kind.PAGER and outgoing.message.passing and result.ok:
        resolved = msgspec.structs.replace(outgoing.message, resolved=True)
        return await _post(_HTTP_PLATFORMS[kind], config, replace(outgoing, message=resolved), transports)
    return result


async def _post(
    platform: _HttpPlatform, config: Config, outgoing: OutgoingMessage, transports: Transports
) -> AttemptResult:
    http_request = platform.build_request(config, outgoing, transports)
    try:
        reply = await transports.egress.post(
            http_request.url, http_request.body, http_request.headers, account=outgoing.org_id
        )
    except EgressError as failure:
        return from_failure(failure)
    return platform.interpret_reply(config, reply, datetime.now(UTC))


def _interpret_status(_config: Any, reply: HttpReply, now: datetime) -> AttemptResult:
    return from_reply(reply, now)


_HTTP_PLATFORMS: Final[Mapping[Kind, _HttpPlatform]] = MappingProxyType(
    {
        Kind.CHAT_A: _HttpPlatform(
            lambda config, outgoing, transports: chats.build_chat_a_request(config, outgoing, transports.chat_a_api),
            chats.interpret_chat_a_reply,
        ),
        Kind.CHAT_B: _HttpPlatform(
            lambda config, outgoing, _transports: chats.build_chat_b_request(config, outgoing),
            chats.interpret_chat_b_reply,
        ),
        Kind.WEBHOOK: _HttpPlatform(
            lambda config, outgoing, _transports: webhooks.build_webhook_request(config, outgoing), _interpret_status
        ),
        Kind.PAGER: _HttpPlatform(
            lambda config, outgoing, transports: webhooks.build_pager_request(config, outgoing, transports.pager_url),
            _interpret_status,
        ),
        Kind.TEAMS: _HttpPlatform(
            lambda config, outgoing, _transports: webhooks.build_teams_request(config, outgoing), _interpret_status
        ),
    }
)
