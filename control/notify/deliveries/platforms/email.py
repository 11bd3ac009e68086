"""E-mail: plain text and HTML, in one message to all recipients of the channel, sent by the operator's SMTP server.

`Message-ID` contains the id of the delivery, the same in every attempt; all messages of a subject form a thread. A
retry goes only to recipients that the server deferred (`recipients`).
"""

import html
import ssl
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from control.notify.channels.config import EmailConfig
from control.notify.deliveries.outcome import AttemptOutcome
from control.notify.deliveries.platforms.outgoing_message import OutgoingMessage, one_line, truncate
from control.notify.deliveries.platforms.recipients import MIN_PERMANENT_CODE, Recipients
from control.notify.message import Message
from control.outbound.egress import Egress, EgressError
from control.outbound.mail_server import MailServer
from control.outbound.smtp import MAIL_POLICY, submit

MAX_SUBJECT: Final = 200
MAX_TEXT: Final = 20_000
_OWN_HEADERS: Final = ("From", "To", "Subject", "Date", "Message-ID", "References", "Auto-Submitted")
_EXPECTED_HEADERS: Final = sorted((*_OWN_HEADERS, "Content-Type", "MIME-Version"))


async def send(
    config: EmailConfig, outgoing: OutgoingMessage, egress: Egress, server: MailServer | None
) -> AttemptOutcome:
    """Send through the guarded egress. A 5yz for a recipient or the message is permanent, a 4yz is not. All other
    errors of the mail server concern its operator, and are no fault of the channel.
    """
    if server is None:
        return _service_fault("No SMTP server is configured.")
    recipients = Recipients.restore(outgoing.id, config.to, outgoing.recipient_progress)
    if not recipients.pending:
        return recipients.outcome()
    try:
        mail = to_bytes(compose(config, outgoing, server.sender))
    except ValueError:
        return AttemptOutcome(False, "The message cannot be encoded as e-mail.", permanent=True)
    try:
        refused = await submit(mail, recipients.pending, egress, server)
    except EgressError as failure:
        return _service_fault(f"The mail server is unreachable: {failure.detail}")
    except (aiosmtplib.SMTPException, OSError) as error:  # OSError includes TimeoutError
        return _failure_outcome(error)
    return recipients.with_results(refused).outcome()


def compose(config: EmailConfig, outgoing: OutgoingMessage, sender: str) -> EmailMessage:
    """The e-mail; the standard library folds and encodes the headers."""
    message, mail = outgoing.message, EmailMessage(policy=MAIL_POLICY)
    domain = sender.rpartition("@")[2]
    mail["From"] = f"Sluice <{sender}>"
    mail["To"] = ", ".join(config.to)
    mail["Subject"] = truncate(break_encoded_words(one_line(message.title)), MAX_SUBJECT)
    mail["Date"] = format_datetime(outgoing.created_at)
    mail["Message-ID"] = f"<{outgoing.id}@{domain}>"
    mail["References"] = f"<{message.subject}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(plain_body(message))
    mail.add_alternative(html_body(message), subtype="html")
    return mail


def break_encoded_words(text: str) -> str:
    """Break encoded words (RFC 2047): the standard library decodes them, and would write the line breaks that they
    contain.
    """
    return text.replace("=?", "= ?")


def to_bytes(mail: EmailMessage) -> bytes:
    """The e-mail as sent. ValueError unless it has each of the expected headers once, and no other."""
    try:
        raw = mail.as_bytes()
    except MessageError as error:  # some versions of the standard library check headers themselves
        raise ValueError("a header cannot be encoded") from error
    if sorted(message_from_bytes(raw).keys()) != _EXPECTED_HEADERS:
        raise ValueError("the e-mail has unexpected headers")
    return raw


def plain_body(message: Message) -> str:
    """The plain-text part."""
    width = max((len(one_line(fact.name)) for fact in message.facts), default=0)
    facts = "\n".join(f"{one_line(fact.name) + ':':<{width + 1}} {fact.value}" for fact in message.facts)
    link = "" if message.link is None else f"{message.link_label}: {message.link}"
    parts = (one_line(message.title), truncate(message.text, MAX_TEXT), facts, link)
    return "\n\n".join(part for part in parts if part) + "\n"


def html_body(message: Message) -> str:
    """The HTML part: inline styles only, since mail programs drop other styles."""
    facts = "".join(
        f'<tr><td style="padding:2px 16px 2px 0;color:#555;vertical-align:top">{html.escape(one_line(fact.name))}</td>'
        f'<td style="padding:2px 0;white-space:pre-wrap">{html.escape(fact.value)}</td></tr>'
        for fact in message.facts
    )
    link = (
        f'<p style="margin:24px 0 0"><a href="{html.escape(message.link)}" style="background:#1f2937;color:#fff;'
        f'padding:10px 16px;border-radius:6px;text-decoration:none">{html.escape(message.link_label)}</a></p>'
        if message.link is not None
        else ""
    )
    text = (
        f'<p style="white-space:pre-wrap">{html.escape(truncate(message.text, MAX_TEXT))}</p>' if message.text else ""
    )
    return (
        '<html><body style="font:15px/1.5 system-ui,sans-serif;color:#111;max-width:640px">'
        f'<h1 style="font-size:19px;margin:0 0 12px">{html.escape(one_line(message.title))}</h1>{text}'
        f'<table style="border-collapse:collapse">{facts}</table>{link}</body></html>\n'
    )


def _failure_outcome(error: Exception) -> AttemptOutcome:
    """Shows SMTP codes, but no text of the server."""
    if isinstance(error, aiosmtplib.SMTPResponseException) and error.code > 0:
        permanent = error.code >= MIN_PERMANENT_CODE
        detail = f"The mail server reported a {'permanent' if permanent else 'temporary'} error (SMTP {error.code})."
        if isinstance(error, aiosmtplib.SMTPDataError):
            return AttemptOutcome(False, detail, permanent=permanent)
        return _service_fault(detail)  # the connection, the password, the sender
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return _service_fault("The certificate of the mail server is not valid.")
    if type(error) in (
        aiosmtplib.SMTPException,
        aiosmtplib.SMTPNotSupported,
    ):  # no STARTTLS, or no AUTH method that we support
        return _service_fault("The mail server lacks STARTTLS or a supported authentication method.")
    if isinstance(error, TimeoutError):
        return _service_fault("The mail server did not respond in time.")
    return _service_fault("The connection to the mail server was lost.")


def _service_fault(detail: str) -> AttemptOutcome:
    """A fault that the operator has to fix."""
    return AttemptOutcome(False, detail, service_fault=True)
