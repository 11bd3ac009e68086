"""Channel configs: one structure per kind. `validation` checks what types cannot express.

Configs contain secrets (a chat platform's URL is one): they are stored encrypted and never shown.
"""

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from control.notify.message import Severity
from control.outbound.egress_policy import MAX_URL_LENGTH

MAX_RECIPIENTS: Final = 20
MAX_HEADERS: Final = 20
SECRET_BYTES: Final = range(16, 65)  # Standard Webhooks 1.0.0 generates 24 to 64; its own examples have fewer
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
    """Slack-compatible: an incoming webhook, or a bot's token and its channel."""

    webhook_url: Url | UnsetType = UNSET
    bot_token: BotToken | UnsetType = UNSET
    channel: ChatChannelName | UnsetType = UNSET


class ChatBConfig(_Config, frozen=True):
    """Discord-compatible: a webhook URL."""

    webhook_url: Url


class WebhookConfig(_Config, frozen=True):
    """A receiver of the tenant's own. `previousSecret` signs too, during a change of the secret."""

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
    """PagerDuty Events v2: the key of an integration. `severity` replaces that of every message."""

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


def decode_config(kind: Kind, raw: bytes) -> Config:
    """A config that was validated when it was stored."""
    config: Config = msgspec.json.decode(raw, type=CONFIGS[kind])
    return config


def encode_config(config: Config) -> bytes:
    """The config as JSON, to be encrypted."""
    return msgspec.json.encode(config)


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
