"""A message out of the door, whatever its channel's kind: the one place of deliveries that meets the network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from chassis.egress import Egress, Reply, Unreached
from control.channels.config import Config, EmailConfig, Kind
from control.deliveries.kinds import chat_a, chat_b, email, pager, teams, webhook
from control.deliveries.kinds.mail_server import MailServer
from control.deliveries.kinds.told import Request, Told
from control.deliveries.outcome import Outcome, from_failure, from_reply


@dataclass(frozen=True, slots=True)
class Ways:
    """Out of the process: the guarded client for what tenants name, one for the mail server, and the platforms."""

    egress: Egress
    mail_egress: Egress
    mail: MailServer | None
    chat_a_api: str
    pager_url: str


class _Kind(NamedTuple):
    request: Callable[[Any, Told, Ways], Request]
    judge: Callable[[Any, Reply, datetime], Outcome]


async def send(kind: Kind, config: Config, told: Told, ways: Ways) -> Outcome:
    """One attempt. It ends within the limits of `chassis.egress` and raises nothing for what the other end does."""
    if isinstance(config, EmailConfig):
        return await email.send(config, told, ways.mail_egress, ways.mail)
    outcome = await _post(_HTTP[kind], config, told, ways)
    if kind is Kind.PAGER and told.message.passing and outcome.ok:
        over = msgspec.structs.replace(told.message, resolved=True)
        return await _post(_HTTP[kind], config, replace(told, message=over), ways)
    return outcome


async def _post(rules: _Kind, config: Config, told: Told, ways: Ways) -> Outcome:
    made = rules.request(config, told, ways)
    try:
        reply = await ways.egress.post(made.url, made.body, made.headers, account=told.org_id)
    except Unreached as failure:
        return from_failure(failure)
    return rules.judge(config, reply, datetime.now(UTC))


def _by_status(_config: Any, reply: Reply, now: datetime) -> Outcome:
    return from_reply(reply, now)


_HTTP: Final[Mapping[Kind, _Kind]] = MappingProxyType(
    {
        Kind.CHAT_A: _Kind(lambda config, told, ways: chat_a.request(config, told, ways.chat_a_api), chat_a.judge),
        Kind.CHAT_B: _Kind(lambda config, told, _ways: chat_b.request(config, told), chat_b.judge),
        Kind.WEBHOOK: _Kind(lambda config, told, _ways: webhook.request(config, told), _by_status),
        Kind.PAGER: _Kind(lambda config, told, ways: pager.request(config, told, ways.pager_url), _by_status),
        Kind.TEAMS: _Kind(lambda config, told, _ways: teams.request(config, told), _by_status),
    }
)
