"""E-mail: plain text and HTML, to every recipient of the channel in one message, by the operator's SMTP server.

`Message-ID` holds the id of the delivery, the same over all attempts, and all that is about one subject is a thread.
Who has it gets it no more when it is tried again for those whom the server put off (`recipients`).
"""

import asyncio
import html
import socket
import ssl
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from control.channels.config import EmailConfig
from control.deliveries.outcome import AttemptOutcome
from control.deliveries.platforms.outgoing_message import OutgoingMessage, one_line, truncate
from control.deliveries.platforms.recipients import MIN_PERMANENT_CODE, Recipients
from control.message import Message
from control.outbound.egress import Egress, EgressError
from control.outbound.mail_server import MailServer

MAX_SUBJECT: Final = 200
MAX_TEXT: Final = 20_000
RESPONSE_TIMEOUT_S: Final = 10.0  # for each answer of the server
TOTAL_TIMEOUT_S: Final = 17.0  # from the look-up of its name to its yes
QUIT_TIMEOUT_S: Final = 2.0
_POLICY: Final = SMTP.clone(cte_type="7bit")  # whatever the server can take
_OWN_HEADERS: Final = ("From", "To", "Subject", "Date", "Message-ID", "References", "Auto-Submitted")
_EXPECTED_HEADERS: Final = sorted((*_OWN_HEADERS, "Content-Type", "MIME-Version"))


async def send(
    config: EmailConfig, outgoing: OutgoingMessage, egress: Egress, server: MailServer | None
) -> AttemptOutcome:
    """Through the guarded way out. A recipient or a message that is refused with 5yz is so for good, 4yz is not.
    Whatever else the mail server says is between it and its operator, and no fault of the channel.
    """
    if server is None:
        return _service_fault("No SMTP server is configured.")
    recipients = Recipients.restore(outgoing.id, config.to, outgoing.recipient_progress)
    if not recipients.pending:
        return recipients.outcome()
    try:
        mail = to_bytes(compose(config, outgoing, server.sender))
    except ValueError:
        return AttemptOutcome(False, "No mail can be made of the message.", permanent=True)
    try:
        refused = await _send(mail, recipients.pending, egress, server)
    except EgressError as failure:
        return _service_fault(f"The mail server was not reached: {failure.detail}")
    except (aiosmtplib.SMTPException, OSError) as error:  # TimeoutError among the latter
        return _failure_outcome(error)
    return recipients.with_results(refused).outcome()


def compose(config: EmailConfig, outgoing: OutgoingMessage, sender: str) -> EmailMessage:
    """The message; headers are folded and encoded by the standard library."""
    message, made = outgoing.message, EmailMessage(policy=_POLICY)
    domain = sender.rpartition("@")[2]
    made["From"] = f"Sluice <{sender}>"
    made["To"] = ", ".join(config.to)
    made["Subject"] = truncate(break_encoded_words(one_line(message.title)), MAX_SUBJECT)
    made["Date"] = format_datetime(outgoing.created_at)
    made["Message-ID"] = f"<{outgoing.id}@{domain}>"
    made["References"] = f"<{message.subject}@{domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(plain_body(message))
    made.add_alternative(html_body(message), subtype="html")
    return made


def break_encoded_words(text: str) -> str:
    """Without encoded words (RFC 2047): the standard library decodes them, and writes line breaks that were in them."""
    return text.replace("=?", "= ?")


def to_bytes(mail: EmailMessage) -> bytes:
    """As it is sent. ValueError unless it has each of our headers once, and no other."""
    try:
        raw = mail.as_bytes()
    except MessageError as error:  # some versions of the standard library look themselves
        raise ValueError("a header cannot be written") from error
    if sorted(message_from_bytes(raw).keys()) != _EXPECTED_HEADERS:
        raise ValueError("there are headers that are not ours")
    return raw


def plain_body(message: Message) -> str:
    """For those who read text."""
    width = max((len(one_line(fact.name)) for fact in message.facts), default=0)
    facts = "\n".join(f"{one_line(fact.name) + ':':<{width + 1}} {fact.value}" for fact in message.facts)
    link = "" if message.link is None else f"{message.link_label}: {message.link}"
    parts = (one_line(message.title), truncate(message.text, MAX_TEXT), facts, link)
    return "\n\n".join(part for part in parts if part) + "\n"


def html_body(message: Message) -> str:
    """For those who read HTML: inline styles alone, for that is what mail programs keep."""
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


async def _send(mail: bytes, recipients: list[str], egress: Egress, server: MailServer) -> dict[str, int]:
    """Whom the server refuses, with its codes. Raises Unreached, SMTPException, OSError."""
    async with asyncio.timeout(TOTAL_TIMEOUT_S) as limit:
        client = _client(server, await egress.connect(server.host, server.port), egress.tls)
        try:
            await client.connect()
            refused, _ = await client.sendmail(server.sender, recipients, mail)
            limit.reschedule(None)  # it is taken, whatever comes of the parting
            await _quit(client)
        except aiosmtplib.SMTPRecipientsRefused as error:
            return {one.recipient: one.code for one in error.recipients}
        finally:
            _abort(client)
    return {address: response.code for address, response in refused.items()}


def _client(server: MailServer, connected: socket.socket, tls: ssl.SSLContext) -> aiosmtplib.SMTP:
    return aiosmtplib.SMTP(
        hostname=server.host,
        sock=connected,
        use_tls=server.implicit_tls,
        start_tls=False if server.implicit_tls else (True if server.user is not None else None),
        tls_context=tls,
        username=server.user,
        password=server.password,
        local_hostname=server.sender.rpartition("@")[2],  # who greets; by default a look-up in DNS each time
        timeout=RESPONSE_TIMEOUT_S,
    )


def _abort(client: aiosmtplib.SMTP) -> None:
    """At once, and with the socket, which is the transport's by now: TLS would wait for the other end's goodbye."""
    transport = client.transport
    client.close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def _quit(client: aiosmtplib.SMTP) -> None:
    """With the courtesy of a QUIT. The mail is taken by then, whatever comes of it."""
    try:
        async with asyncio.timeout(QUIT_TIMEOUT_S):
            await client.quit()
    except (aiosmtplib.SMTPException, OSError):
        pass


def _failure_outcome(error: Exception) -> AttemptOutcome:
    """Codes are shown, texts of the server are not."""
    if isinstance(error, aiosmtplib.SMTPResponseException) and error.code > 0:
        permanent = error.code >= MIN_PERMANENT_CODE
        detail = f"The mail server {'refuses it' if permanent else 'cannot take it now'} (SMTP {error.code})."
        if isinstance(error, aiosmtplib.SMTPDataError):
            return AttemptOutcome(False, detail, permanent=permanent)
        return _service_fault(detail)  # the connection, the password, the sender
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return _service_fault("The certificate of the mail server is not valid.")
    if type(error) in (aiosmtplib.SMTPException, aiosmtplib.SMTPNotSupported):  # no STARTTLS, no AUTH that we know
        return _service_fault("The mail server does not offer what it takes to sign in.")
    if isinstance(error, TimeoutError):
        return _service_fault("The mail server did not answer in time.")
    return _service_fault("The connection to the mail server was lost.")


def _service_fault(detail: str) -> AttemptOutcome:
    """The operator has to see to it, and can."""
    return AttemptOutcome(False, detail, service_fault=True)
