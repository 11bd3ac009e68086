"""Validates what types cannot express in a config: the rules of each kind, and those of the operator."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from yarl import URL

from chassis.http.validation import Issues, decode_json
from control.notify.channels.config import CONFIGS, SECRET_RULE, Config, Kind, secret_bytes
from control.outbound.egress_policy import EgressPolicy, parse_ip_literal, parse_uri

# Hosts of the platforms; a leading dot stands for any subdomain.
PLATFORM_HOSTS: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.CHAT_A: ("hooks.slack.com", "hooks.slack-gov.com"),
        Kind.CHAT_B: ("discord.com", "discordapp.com", "canary.discord.com", "ptb.discord.com"),
        Kind.TEAMS: (".logic.azure.com", ".environment.api.powerplatform.com"),
    }
)
# Sluice's own headers, those of the connection, and those with which a sender could pose as a proxy.
_RESERVED_HEADERS: Final = re.compile(
    r"(?:webhook-.*|content-.*|host|connection|transfer-encoding|te|trailer|upgrade|expect|accept-encoding|user-agent"
    r"|forwarded|x-forwarded-.*|x-real-ip|proxy-.*|cookie)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """What the operator permits. `chat_hosts`: hosts of chat platforms besides the known ones; `*`: any."""

    egress_policy: EgressPolicy
    chat_hosts: tuple[str, ...] = ()


def read_config(kind: Kind, raw: bytes, rules: ChannelRules, issues: Issues) -> Config | None:
    """A config of the kind, from JSON; None after adding an issue for every invalid field below `body.config`."""
    before = len(issues)
    config: Config | None = decode_json(CONFIGS[kind], raw, "body.config", issues)
    _CHECKS[kind](_ConfigInput(_valid_fields(config, raw, issues), rules, issues))
    return config if len(issues) == before else None


def _valid_fields(config: Config | None, raw: bytes, issues: Issues) -> dict[str, Any]:
    """The fields with valid types, by their names in the body."""
    decoded = msgspec.json.decode(raw) if config is None else msgspec.to_builtins(config)
    fields = decoded.items() if isinstance(decoded, dict) else ()
    return {name: value for name, value in fields if not issues.has_issue_under(f"body.config.{name}")}


@dataclass(frozen=True, slots=True)
class _ConfigInput:
    """A config under validation."""

    fields: Mapping[str, Any]
    rules: ChannelRules
    issues: Issues

    def add_issue(self, name: str, message: str, code: str) -> None:
        """Add an issue, unless the field has one already."""
        path = f"body.config.{name}"
        if not self.issues.has_issue_under(path):
            self.issues.add(path, message, code)

    def require_url(self, name: str, kind: Kind | None = None) -> None:
        """`kind`: the platform that the URL's host must belong to, if any."""
        if name not in self.fields:
            return
        try:
            url = parse_uri(self.fields[name], allow_http=self.rules.egress_policy.allow_http)
        except ValueError as error:
            self.add_issue(name, str(error), "format")
            return
        issue = self._url_issue(url, kind)
        if issue is not None:
            self.add_issue(name, issue, "not_allowed")

    def _url_issue(self, url: URL, kind: Kind | None) -> str | None:
        """Why the URL is not permitted, None if it is."""
        policy, port, host = self.rules.egress_policy, url.port or 0, url.host or ""
        address = parse_ip_literal(host)
        if not policy.may_permit(port):
            return f"Must use port {' or '.join(map(str, sorted(policy.ports)))}."
        if address is not None and not policy.permits(str(address), port):
            return "Must be a public address."
        if kind is not None and not matches_any_host(
            host.lower().rstrip("."), (*PLATFORM_HOSTS[kind], *self.rules.chat_hosts)
        ):
            return f"Must be a URL of {' or '.join(PLATFORM_HOSTS[kind])}."
        return None


def _check_chat_a(config: _ConfigInput) -> None:
    bot_fields = ("botToken", "channel")
    config.require_url("webhookUrl", Kind.CHAT_A)
    if "webhookUrl" in config.fields or config.issues.has_issue_under("body.config.webhookUrl"):
        for name in bot_fields:
            if name in config.fields:
                config.add_issue(name, "Must not be combined with webhookUrl.", "invalid")
    elif any(name in config.fields or config.issues.has_issue_under(f"body.config.{name}") for name in bot_fields):
        for name in bot_fields:
            if name not in config.fields:
                config.add_issue(name, "Is required without webhookUrl.", "missing")
    elif not config.issues.has_issue_under("body.config"):
        config.add_issue("webhookUrl", "Is required unless botToken and channel are set.", "missing")


def _check_chat_b(config: _ConfigInput) -> None:
    config.require_url("webhookUrl", Kind.CHAT_B)


def _check_webhook(config: _ConfigInput) -> None:
    config.require_url("url")
    for name in ("secret", "previousSecret"):
        try:
            if name in config.fields:
                secret_bytes(config.fields[name])
        except ValueError:
            config.add_issue(name, SECRET_RULE, "format")
    headers = config.fields.get("headers", {})
    for header in headers:
        if _RESERVED_HEADERS.fullmatch(header):
            config.add_issue(f"headers.{header}", "Must not be set: the header is reserved.", "not_allowed")
    if len({header.lower() for header in headers}) < len(headers):
        config.add_issue("headers", "Must not contain duplicate headers.", "repeated")


def _check_email(config: _ConfigInput) -> None:
    addresses = config.fields.get("to", ())
    if len({address.lower() for address in addresses}) < len(addresses):
        config.add_issue("to", "Must not contain duplicate addresses.", "repeated")


def _check_pager(_config: _ConfigInput) -> None:
    """Its structure is all there is to check."""


def _check_teams(config: _ConfigInput) -> None:
    config.require_url("workflowUrl", Kind.TEAMS)


def matches_any_host(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether one of `hosts` is the host, a leading dot and a domain above it, or `*`."""
    return any(one in ("*", host) or (one.startswith(".") and host.endswith(one)) for one in hosts)


_CHECKS: Final[Mapping[Kind, Callable[[_ConfigInput], None]]] = MappingProxyType(
    {
        Kind.CHAT_A: _check_chat_a,
        Kind.CHAT_B: _check_chat_b,
        Kind.WEBHOOK: _check_webhook,
        Kind.EMAIL: _check_email,
        Kind.PAGER: _check_pager,
        Kind.TEAMS: _check_teams,
    }
)
