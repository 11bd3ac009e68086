"""Notification messages before formatting: the same values for a chat card, an e-mail or a signed webhook body."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta


class Severity(StrEnum):
    """How urgent a message is; pager channels pass it on."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class Fact(msgspec.Struct, frozen=True):
    """One line of a message: `Requested by`, `deploy-bot (agent of Ada)`."""

    name: str
    value: str


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The notification of one event. Texts may hold anything that people typed; the platform adapters escape them."""

    type: Annotated[str, Meta(description="`approval.requested`, `channel.test`: dotted, lower case.")]
    subject: Annotated[str, Meta(description="What it is about, `apr_...`: later messages about it belong to it.")]
    title: Annotated[str, Meta(description="One line that says it all.")]
    text: Annotated[str, Meta(description="The rest, in sentences; may be empty.")] = ""
    facts: tuple[Fact, ...] = ()
    severity: Severity = Severity.INFO
    resolved: Annotated[bool, Meta(description="Whether it ends what earlier messages of the subject began.")] = False
    passing: Annotated[bool, Meta(description="Whether it is over when it is told: pagers close what it opens.")] = (
        False
    )
    link: Annotated[str | None, Meta(description="Where a person goes from here.")] = None
    link_label: str = "Open in Sluice"
    data: Annotated[dict[str, Any], Meta(description="For programs: `data` of a signed body. No secrets.")] = (
        msgspec.field(default_factory=dict)
    )
