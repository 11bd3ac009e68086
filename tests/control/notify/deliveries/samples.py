"""Messages for the tests of kinds: one of every day, and whatever people type."""

import base64
from datetime import UTC, datetime

from hypothesis import strategies as st

from control.notify.deliveries.rules import OutgoingMessage
from control.notify.message import Fact, Message, Severity

NOW = datetime(2026, 11, 21, 12, 30, 1, tzinfo=UTC)


def encoded_word(hidden: str) -> str:
    """As headers write what is not ASCII (RFC 2047); here it hides what no header may have."""
    return f"x =?utf-8?b?{base64.b64encode(hidden.encode()).decode()}?= y"


hidden = st.text(alphabet="\r\n: <b>Bcc", max_size=30) | st.just("\r\nBcc: eve@example.com\r\n\r\n<h1>")
texts = (
    st.text(max_size=30)
    | hidden.map(encoded_word)
    | st.text(alphabet="<&>*_[](){}@`~|#:/w.\n\r\0\\é漢😀a ", max_size=9_000)
)
messages = st.builds(
    Message,
    type=st.just("approval.requested"),
    subject=st.just("apr_1"),
    title=texts,
    text=texts,
    facts=st.lists(st.builds(Fact, texts, texts), max_size=60).map(tuple),
    severity=st.sampled_from(Severity),
    resolved=st.booleans(),
    link=st.none() | st.just("https://sluice.example.org/x?a=b&c=d"),
)


def told(message: Message) -> OutgoingMessage:
    return OutgoingMessage("dlv_1", message, NOW, NOW)


ASK = Message(
    type="approval.requested",
    subject="apr_1",
    title="Approve release.rollback of checkout?",
    text="Errors rose <b>after</b> *v42* & <@U1> said so",
    facts=(Fact("Requested by", "deploy-bot"), Fact("Risk", "HIGH")),
    severity=Severity.WARNING,
    link="https://sluice.example.org/a",
    link_label="Decide",
    data={"requestId": "apr_1"},
)
