"""Channel configs: one structure per kind, and the rules of each kind and of the operator that types cannot express.

Configs contain secrets (the URL of a chat webhook is one). They are stored encrypted and never shown.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType
from yarl import URL

from chassis.http.validation import Issues, decode_json
from control.notify.message import Severity
from control.outbound.egress_policy import MAX_URL_LENGTH, EgressPolicy, parse_ip_literal, parse_uri

MAX_RECIPIENTS: Final = 20
MAX_HEADERS: Final = 20
SECRET_BYTES: Final = range(16, 65)  # Standard Webhooks 1.0.0 generates 24 to 64, and has fewer in its own examples
SECRET_RULE: Final = "Must be whsec_ followed by 16 to 64 bytes in base64."  # noqa: S105 (a message)
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # the prefix of every secret is public


class Kind(StrEnum):
    """The receiver's platform."""

    CHAT_A = "chat-a"
    CHAT_B = "chat-b"
    WEBHOOK = "webhook"
    EMAIL = "email"
    PAGER = "pager"
    TEAMS = "teams"


Url = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH)]
Secret = Annotated[
    str,
    Meta(min_length=1, max_length=100, description=SECRET_RULE),
]
HeaderName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+(?!\n)$",
        description="Must be a valid HTTP header name.",
    ),
]
HeaderValue = Annotated[
    str,
    Meta(
        max_length=1_000,
        pattern=r"^(?:[!-~](?:[ -~]*[!-~])?)?(?!\n)$",
        description="Must consist of printable ASCII characters, without leading or trailing spaces.",
    ),
]
MailAddress = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=254,
        pattern=r"^(?!\.)(?!.*(?:=\?|\.\.|\.@))[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
        r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?!\n)$",
        description="Must be an e-mail address. Its local part must not have =?, or a leading, trailing or double dot.",
    ),
]
BotToken = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+(?!\n)$",
        description="Must consist of printable ASCII characters, without spaces.",
    ),
]
RoutingKey = Annotated[
    str,
    Meta(
        min_length=32,
        max_length=32,
        pattern=r"^[A-Za-z0-9]+(?!\n)$",
        description="Must consist of 32 letters and digits.",
    ),
]
ChatChannelName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[^\s\x00-\x1f\x7f]+(?!\n)$",
        description="Must be the name or id of a channel on the platform, without spaces.",
    ),
]


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Base of all configs: `repr` and `str` show no secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    __str__ = __repr__


class ChatAConfig(_Config, frozen=True):
    """Slack-compatible: an incoming webhook, or a bot's token and the channel that it posts to."""

    webhook_url: Url | UnsetType = UNSET
    bot_token: BotToken | UnsetType = UNSET
    channel: ChatChannelName | UnsetType = UNSET


class ChatBConfig(_Config, frozen=True):
    """Discord-compatible: a webhook URL."""

    webhook_url: Url


class WebhookConfig(_Config, frozen=True):
    """A receiver of the tenant. Messages are also signed with `previousSecret`, while the secret is being replaced."""

    url: Url
    secret: Secret
    previous_secret: Secret | UnsetType = UNSET
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=MAX_HEADERS)] = msgspec.field(
        default_factory=dict
    )


class EmailConfig(_Config, frozen=True):
    """E-mail to these addresses, through the operator's SMTP server."""

    to: Annotated[list[MailAddress], Meta(min_length=1, max_length=MAX_RECIPIENTS)]


class PagerConfig(_Config, frozen=True):
    """PagerDuty Events v2: the key of an integration. `severity` replaces the severity of every message."""

    routing_key: RoutingKey
    severity: Severity | UnsetType = UNSET


class TeamsConfig(_Config, frozen=True):
    """The URL of a workflow that accepts cards."""

    workflow_url: Url


Config = ChatAConfig | ChatBConfig | WebhookConfig | EmailConfig | PagerConfig | TeamsConfig

CONFIGS: Final[Mapping[Kind, type[Any]]] = MappingProxyType(
    {
        Kind.CHAT_A: ChatAConfig,
        Kind.CHAT_B: ChatBConfig,
        Kind.WEBHOOK: WebhookConfig,
        Kind.EMAIL: EmailConfig,
        Kind.PAGER: PagerConfig,
        Kind.TEAMS: TeamsConfig,
    }
)


def secret_bytes(secret: str) -> bytes:
    """The key inside `whsec_...`. Raises ValueError, without quoting the secret."""
    try:
        if not secret.startswith(_SECRET_PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX).encode("utf-8"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a webhook secret must be whsec_ followed by base64") from None
    if len(key) not in SECRET_BYTES:
        raise ValueError("a webhook secret must have 16 to 64 bytes")
    return key


# Hosts of the platforms; a leading dot stands for any subdomain.
PLATFORM_HOSTS: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.CHAT_A: ("hooks.slack.com", "hooks.slack-gov.com"),
        Kind.CHAT_B: ("discord.com", "discordapp.com", "canary.discord.com", "ptb.discord.com"),
        Kind.TEAMS: (".logic.azure.com", ".environment.api.powerplatform.com"),
    }
)
# Headers of Sluice, of the connection, and headers with which a sender could pose as a proxy.
_RESERVED_HEADERS: Final = re.compile(
    r"(?:webhook-.*|content-.*|host|connection|transfer-encoding|te|trailer|upgrade|expect|accept-encoding|user-agent"
    r"|forwarded|x-forwarded-.*|x-real-ip|proxy-.*|cookie)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """The operator's rules. `chat_hosts`: hosts of chat platforms in addition to the known ones; `*` permits any
    host.
    """

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
        """Require a permitted URL. `kind`: the platform that the URL's host must belong to, if any."""
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
        """The reason why the URL is not permitted, None if it is."""
        policy, port, host = self.rules.egress_policy, url.port or 0, url.host or ""
        address = parse_ip_literal(host)
        if not policy.may_permit(port):
            return f"Must use port {' or '.join(map(str, sorted(policy.ports)))}."
        if address is not None and not policy.permits(str(address), port):
            return "Must be a public address."
        if kind is not None and not matches_any_host(
            host.lower().rstrip("."), (*PLATFORM_HOSTS[kind], *self.rules.chat_hosts)
        ):
            return f"Must be a URL on {' or '.join(PLATFORM_HOSTS[kind])}."
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


def matches_any_host(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether one of `hosts` is the host, a leading dot and a domain above it, or `*`."""
    return any(one in ("*", host) or (one.startswith(".") and host.endswith(one)) for one in hosts)


_CHECKS: Final[Mapping[Kind, Callable[[_ConfigInput], None]]] = MappingProxyType(
    {
        Kind.CHAT_A: _check_chat_a,
        Kind.CHAT_B: lambda config: config.require_url("webhookUrl", Kind.CHAT_B),
        Kind.WEBHOOK: _check_webhook,
        Kind.EMAIL: _check_email,
        Kind.PAGER: lambda _config: None,  # its structure is the only rule
        Kind.TEAMS: lambda config: config.require_url("workflowUrl", Kind.TEAMS),
    }
)
