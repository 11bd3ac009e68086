"""What a channel of each kind has to know: one structure per kind, and the rules that types cannot tell.

Configs hold secrets (a chat platform's URL is one): they are stored sealed and shown nowhere. Their limits are those of
the platforms; the rules of URLs are those of the way out (`chassis.egress`).
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

from chassis.egress import MAX_URL_LENGTH, Policy, literal, parse_url
from chassis.validation import Issues, decode_json
from control.deliveries.message import Severity

MAX_RECIPIENTS: Final = 20
MAX_HEADERS: Final = 20
SECRET_BYTES: Final = range(16, 65)  # Standard Webhooks 1.0.0 draws 24 to 64; its own examples have fewer
KEY_RULE: Final = "Must be whsec_ and 16 to 64 bytes in base64."
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # what every secret starts with is public


class Kind(StrEnum):
    """What is at the other end."""

    CHAT_A = "chat-a"
    CHAT_B = "chat-b"
    WEBHOOK = "webhook"
    EMAIL = "email"
    PAGER = "pager"
    TEAMS = "teams"


Url = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH)]
Secret = Annotated[
    str,
    Meta(min_length=1, max_length=100, description=KEY_RULE),
]
HeaderName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+(?!\n)$",
        description="Must be the name of an HTTP header.",
    ),
]
HeaderValue = Annotated[
    str,
    Meta(
        max_length=1_000,
        pattern=r"^(?:[!-~](?:[ -~]*[!-~])?)?(?!\n)$",
        description="Must consist of printable ASCII characters, without spaces at its ends.",
    ),
]
MailAddress = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=254,
        pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
        r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?!\n)$",
        description="Must be an e-mail address.",
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
RoomName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[^\s\x00-\x1f\x7f]+(?!\n)$",
        description="Must be the name or id of a channel of the platform, without spaces.",
    ),
]


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """What all have in common: secrets are not shown where a config is printed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    __str__ = __repr__


class ChatAConfig(_Config, frozen=True):
    """Slack-compatible: an incoming webhook, or a bot's token and the channel it writes to."""

    webhook_url: Url | UnsetType = UNSET
    bot_token: BotToken | UnsetType = UNSET
    channel: RoomName | UnsetType = UNSET


class ChatBConfig(_Config, frozen=True):
    """Discord-compatible: the URL of a webhook."""

    webhook_url: Url


class WebhookConfig(_Config, frozen=True):
    """A receiver of one's own. `previousSecret` signs too, while a secret is being changed."""

    url: Url
    secret: Secret
    previous_secret: Secret | UnsetType = UNSET
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=MAX_HEADERS)] = msgspec.field(
        default_factory=dict
    )


class EmailConfig(_Config, frozen=True):
    """People, by e-mail through the operator's SMTP server."""

    to: Annotated[list[MailAddress], Meta(min_length=1, max_length=MAX_RECIPIENTS)]


class PagerConfig(_Config, frozen=True):
    """PagerDuty Events v2: the key of an integration. `severity`: of every event, in the place of the message's."""

    routing_key: RoutingKey
    severity: Severity | UnsetType = UNSET


class TeamsConfig(_Config, frozen=True):
    """The URL of a workflow that takes cards."""

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


def stored_config(kind: Kind, raw: bytes) -> Config:
    """A config that was checked when it was stored."""
    config: Config = msgspec.json.decode(raw, type=CONFIGS[kind])
    return config


def to_json(config: Config) -> bytes:
    """As it is stored, sealed."""
    return msgspec.json.encode(config)


def secret_bytes(secret: str) -> bytes:
    """The key inside `whsec_...`. ValueError without quoting it."""
    try:
        if not secret.startswith(_SECRET_PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX).encode("utf-8"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a webhook secret is whsec_ and base64") from None
    if len(key) not in SECRET_BYTES:
        raise ValueError("a webhook secret has 16 to 64 bytes")
    return key


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
        host, address = (url.host or "").lower().rstrip("."), literal(url.host or "")
        if address is not None and not self.rules.policy.permits(str(address), url.port or 0):
            self.fault(name, "Must be a public address.", "not_allowed")
        elif kind is not None and not _is_host_of(host, (*PLATFORM_HOSTS[kind], *self.rules.hosts)):
            self.fault(name, f"Must be a URL of {' or '.join(PLATFORM_HOSTS[kind])}.", "not_allowed")


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
