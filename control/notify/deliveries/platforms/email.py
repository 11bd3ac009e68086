"""E-mail: plain text and HTML, in one message to all recipients of the channel, sent by the operator's SMTP server.

`Message-ID` contains the id of the delivery and is the same in every attempt. All messages of a subject form a thread.
A retry is sent only to recipients that the server deferred. Addresses are secrets of the channel. Sluice therefore
stores a mark of each recipient instead. The mark of an address differs in each delivery.
"""

import hashlib
import html
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from control.notify.channels.config import EmailConfig
from control.notify.deliveries.rules import AttemptResult, OutgoingMessage, one_line, truncate
from control.notify.message import Message
from control.outbound.egress import Egress, EgressError
from control.outbound.mail_server import MailServer
from control.outbound.smtp import MAIL_POLICY, submit

MIN_PERMANENT_CODE: Final = 500  # SMTP codes of 500 and above are permanent
_MARK_LENGTH: Final = 16  # characters; the marks of 20 recipients, with their signs, fit `deliveries.taken`


@dataclass(frozen=True, slots=True)
class Recipients:
    """The recipients of a delivery. `addresses`: in the order of the config. `codes`: SMTP codes of the recipients
    refused in the last attempt.
    """

    delivery_id: str
    addresses: Sequence[str]
    delivered: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    codes: tuple[int, ...] = ()

    @classmethod
    def restore(cls, delivery_id: str, addresses: Sequence[str], recipient_progress: str) -> "Recipients":
        """Restore from an earlier result's `recipient_progress`. Marks of addresses that are not in `addresses` are
        ignored.
        """
        marks = set(recipient_progress.split())
        delivered = frozenset(one for one in addresses if "+" + _mark(delivery_id, one) in marks)
        refused = frozenset(one for one in addresses if "-" + _mark(delivery_id, one) in marks)
        return cls(delivery_id, addresses, delivered, refused)

    @property
    def pending(self) -> list[str]:
        """Recipients that have neither received the message nor been refused for good."""
        return [one for one in self.addresses if one not in self.delivered | self.refused]

    def with_results(self, codes: Mapping[str, int]) -> "Recipients":
        """The recipients after an attempt for the pending ones, of which `codes` were refused."""
        delivered = self.delivered | frozenset(one for one in self.pending if one not in codes)
        refused = self.refused | frozenset(one for one, code in codes.items() if code >= MIN_PERMANENT_CODE)
        return replace(self, delivered=delivered, refused=refused, codes=tuple(codes.values()))

    def result(self) -> AttemptResult:
        """The result of all attempts so far."""
        code = f" (SMTP {min(self.codes)})" if self.codes else ""
        some = f"Delivered to {len(self.delivered)} of {len(self.addresses)} recipients"
        if self.pending:
            detail = f"{some}; the others are retried{code}." if self.delivered else self._refusal_detail(code)
            return AttemptResult(False, detail, recipient_progress=self._marks())
        if not self.delivered:
            return AttemptResult(False, self._refusal_detail(code), permanent=True, recipient_progress=self._marks())
        return AttemptResult(True, "Delivered." if not self.refused else f"{some}.", recipient_progress=self._marks())

    def _refusal_detail(self, code: str) -> str:
        return f"The mail server rejected every recipient{code}."

    def _marks(self) -> str:
        signs = {one: "+" if one in self.delivered else "-" for one in self.delivered | self.refused}
        return " ".join(sign + _mark(self.delivery_id, one) for one, sign in sorted(signs.items()))


def _mark(delivery_id: str, address: str) -> str:
    return hashlib.sha256(f"{delivery_id}\0{address}".encode()).hexdigest()[:_MARK_LENGTH]


MAX_SUBJECT: Final = 200
MAX_TEXT: Final = 20_000
_OWN_HEADERS: Final = ("From", "To", "Subject", "Date", "Message-ID", "References", "Auto-Submitted")
_EXPECTED_HEADERS: Final = sorted((*_OWN_HEADERS, "Content-Type", "MIME-Version"))


async def send(
    config: EmailConfig, outgoing: OutgoingMessage, egress: Egress, server: MailServer | None
) -> AttemptResult:
    """Send through the guarded egress. A 5yz for a recipient or the message is permanent, a 4yz is not. All other
    errors of the mail server concern its operator and do not count as failures of the channel.
    """
    if server is None:
        return _service_fault("No SMTP server is configured.")
    recipients = Recipients.restore(outgoing.id, config.to, outgoing.recipient_progress)
    if not recipients.pending:
        return recipients.result()
    try:
        mail = to_bytes(compose(config, outgoing, server.sender))
    except ValueError:
        return AttemptResult(False, "The message cannot be encoded as e-mail.", permanent=True)
    try:
        refused = await submit(mail, recipients.pending, egress, server)
    except EgressError as failure:
        return _service_fault(f"The mail server is unreachable: {failure.detail}")
    except (aiosmtplib.SMTPException, OSError) as error:  # OSError includes TimeoutError
        return _failure_result(error)
    return recipients.with_results(refused).result()


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
    """The e-mail as sent. Raises ValueError unless it has each of the expected headers once, and no other headers."""
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


def _failure_result(error: Exception) -> AttemptResult:
    """The result of a failed attempt. It shows SMTP codes, but no text of the server."""
    if isinstance(error, aiosmtplib.SMTPResponseException) and error.code > 0:
        permanent = error.code >= MIN_PERMANENT_CODE
        detail = f"The mail server reported a {'permanent' if permanent else 'temporary'} error (SMTP {error.code})."
        if isinstance(error, aiosmtplib.SMTPDataError):
            return AttemptResult(False, detail, permanent=permanent)
        return _service_fault(detail)  # a fault of the connection, the password or the sender
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return _service_fault("The certificate of the mail server is not valid.")
    if type(error) in (
        aiosmtplib.SMTPException,
        aiosmtplib.SMTPNotSupported,
    ):  # no STARTTLS, or no supported AUTH method
        return _service_fault("The mail server lacks STARTTLS or a supported authentication method.")
    if isinstance(error, TimeoutError):
        return _service_fault("The mail server did not respond in time.")
    return _service_fault("The connection to the mail server was lost.")


def _service_fault(detail: str) -> AttemptResult:
    """A fault that the operator has to fix."""
    return AttemptResult(False, detail, service_fault=True)
