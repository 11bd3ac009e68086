"""Notification messages before formatting. The same values become a chat card, an e-mail or a signed webhook body."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta


class Severity(StrEnum):
    """How urgent a message is. Pager channels pass it on."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class Fact(msgspec.Struct, frozen=True):
    """One line of a message, such as `Requested by`, `deploy-bot (agent of Ada)`."""

    name: str
    value: str


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The notification of one event. Texts may contain anything that people typed. The platform adapters escape
    them.
    """

    type: Annotated[str, Meta(description="Event type, such as `approval.requested` or `channel.test`.")]
    subject: Annotated[
        str,
        Meta(
            description="Id of the resource that the message is about, such as `apr_...`. Messages with the same id "
            "belong together."
        ),
    ]
    title: Annotated[str, Meta(description="One-line summary.")]
    text: Annotated[str, Meta(description="Details; may be empty.")] = ""
    facts: tuple[Fact, ...] = ()
    severity: Severity = Severity.INFO
    resolved: Annotated[
        bool, Meta(description="Whether the message resolves earlier messages with the same `subject`.")
    ] = False
    passing: Annotated[
        bool, Meta(description="Whether pager channels resolve the incident of this message immediately.")
    ] = False
    link: Annotated[str | None, Meta(description="URL to open for details.")] = None
    link_label: str = "Open in Sluice"
    approve_in: Annotated[
        tuple[str, ...],
        Meta(description="Chat platforms on which users can approve the request in `subject` with a button."),
    ] = ()
    data: Annotated[dict[str, Any], Meta(description="`data` of the signed webhook body. Never contains secrets.")] = (
        msgspec.field(default_factory=dict)
    )
