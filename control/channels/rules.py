"""What types cannot tell of a config: the rules of each kind, and of the operator."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from yarl import URL

from chassis.destinations import Policy, literal, parse_url
from chassis.validation import Issues, decode_json
from control.channels.config import CONFIGS, KEY_RULE, Config, Kind, secret_bytes

# Where the platforms take messages; a leading dot stands for any name below.
PLATFORM_HOSTS: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.CHAT_A: ("hooks.slack.com", "hooks.slack-gov.com"),
        Kind.CHAT_B: ("discord.com", "discordapp.com", "canary.discord.com", "ptb.discord.com"),
        Kind.TEAMS: (".logic.azure.com", ".environment.api.powerplatform.com"),
    }
)
# Ours, those of the connection, and those that would let a sender pretend to be a proxy.
_OUR_HEADERS: Final = re.compile(
    r"(?:webhook-.*|content-.*|host|connection|transfer-encoding|te|trailer|upgrade|expect|accept-encoding|user-agent"
    r"|forwarded|x-forwarded-.*|x-real-ip|proxy-.*|cookie)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator permits. `hosts`: of chat platforms besides the known ones; `*`: any."""

    policy: Policy
    hosts: tuple[str, ...] = ()


def read_config(kind: Kind, raw: bytes, rules: Rules, issues: Issues) -> Config | None:
    """A config of the kind, from JSON; None after recording an issue for every offending field below `body.config`."""
    before = len(issues)
    config: Config | None = decode_json(CONFIGS[kind], raw, "body.config", issues)
    _CHECKS[kind](_Given(_sound(config, raw, issues), rules, issues))
    return config if len(issues) == before else None


def _sound(config: Config | None, raw: bytes, issues: Issues) -> dict[str, Any]:
    """The fields whose types are right, by the names that they were given under."""
    written = msgspec.json.decode(raw) if config is None else msgspec.to_builtins(config)
    fields = written.items() if isinstance(written, dict) else ()
    return {name: value for name, value in fields if not issues.under(f"body.config.{name}")}


@dataclass(frozen=True, slots=True)
class _Given:
    """A config under examination."""

    fields: Mapping[str, Any]
    rules: Rules
    issues: Issues

    def fault(self, name: str, message: str, code: str) -> None:
        """Unless the field is at fault already."""
        path = f"body.config.{name}"
        if not self.issues.under(path):
            self.issues.add(path, message, code)

    def require_url(self, name: str, kind: Kind | None = None) -> None:
        """`kind`: of the platform whose host it must be."""
        if name not in self.fields:
            return
        try:
            url = parse_url(self.fields[name], http=self.rules.policy.http)
        except ValueError as error:
            self.fault(name, str(error), "format")
            return
        refusal = self._refusal(url, kind)
        if refusal is not None:
            self.fault(name, refusal, "not_allowed")

    def _refusal(self, url: URL, kind: Kind | None) -> str | None:
        """Why nothing may be sent there."""
        policy, port, host = self.rules.policy, url.port or 0, url.host or ""
        address = literal(host)
        if not policy.may_permit(port):
            return f"Must have the port {' or '.join(map(str, sorted(policy.ports)))}."
        if address is not None and not policy.permits(str(address), port):
            return "Must be a public address."
        if kind is not None and not _is_host_of(host.lower().rstrip("."), (*PLATFORM_HOSTS[kind], *self.rules.hosts)):
            return f"Must be a URL of {' or '.join(PLATFORM_HOSTS[kind])}."
        return None


def _check_chat_a(given: _Given) -> None:
    by_bot = ("botToken", "channel")
    given.require_url("webhookUrl", Kind.CHAT_A)
    if "webhookUrl" in given.fields or given.issues.under("body.config.webhookUrl"):
        for name in by_bot:
            if name in given.fields:
                given.fault(name, "Must not be given beside webhookUrl.", "invalid")
    elif any(name in given.fields or given.issues.under(f"body.config.{name}") for name in by_bot):
        for name in by_bot:
            if name not in given.fields:
                given.fault(name, "Is required without webhookUrl.", "missing")
    elif not given.issues.under("body.config"):
        given.fault("webhookUrl", "Is required, or botToken and channel.", "missing")


def _check_chat_b(given: _Given) -> None:
    given.require_url("webhookUrl", Kind.CHAT_B)


def _check_webhook(given: _Given) -> None:
    given.require_url("url")
    for name in ("secret", "previousSecret"):
        try:
            if name in given.fields:
                secret_bytes(given.fields[name])
        except ValueError:
            given.fault(name, KEY_RULE, "format")
    headers = given.fields.get("headers", {})
    for header in headers:
        if _OUR_HEADERS.fullmatch(header):
            given.fault(f"headers.{header}", "Must not be set: it is ours or the connection's.", "not_allowed")
    if len({header.lower() for header in headers}) < len(headers):
        given.fault("headers", "Must name each header once.", "repeated")


def _check_email(given: _Given) -> None:
    addresses = given.fields.get("to", ())
    if len({address.lower() for address in addresses}) < len(addresses):
        given.fault("to", "Must name each address once.", "repeated")


def _check_pager(_given: _Given) -> None:
    """Its structure says it all."""


def _check_teams(given: _Given) -> None:
    given.require_url("workflowUrl", Kind.TEAMS)


def _is_host_of(host: str, hosts: tuple[str, ...]) -> bool:
    return any(one in ("*", host) or (one.startswith(".") and host.endswith(one)) for one in hosts)


_CHECKS: Final[Mapping[Kind, Callable[[_Given], None]]] = MappingProxyType(
    {
        Kind.CHAT_A: _check_chat_a,
        Kind.CHAT_B: _check_chat_b,
        Kind.WEBHOOK: _check_webhook,
        Kind.EMAIL: _check_email,
        Kind.PAGER: _check_pager,
        Kind.TEAMS: _check_teams,
    }
)
