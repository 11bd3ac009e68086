"""E-mail: plain text and HTML, to every recipient of the channel in one message, by the operator's SMTP server.

`Message-ID` holds the id of the delivery, the same over all attempts, and all that is about one subject is a thread.
"""

import asyncio
import html
import socket
import ssl
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from chassis.egress import TOTAL_S, Egress, Unreached
from control.channels.config import EmailConfig
from control.deliveries.kinds.mail_server import MailServer
from control.deliveries.kinds.told import Told, cut, one_line
from control.deliveries.message import Message
from control.deliveries.outcome import Outcome

MAX_SUBJECT: Final = 200
MAX_TEXT: Final = 20_000
TIMEOUT_S: Final = 10.0  # for each answer of the server
PARTING_S: Final = 2.0
PERMANENT: Final = 500  # SMTP codes from here on


async def send(config: EmailConfig, told: Told, egress: Egress, server: MailServer | None) -> Outcome:
    """Through the guarded way out. 5yz is for good, 4yz and a lost connection are not."""
    if server is None:
        return Outcome(False, "No SMTP server is configured.")
    try:
        connected = await egress.connect(server.host, server.port)
    except Unreached as failure:
        return Outcome(False, f"The mail server was not reached: {failure.detail}", permanent=failure.permanent)
    return await _send(config, told, server, connected)


def compose(config: EmailConfig, told: Told, sender: str) -> EmailMessage:
    """The message; headers are folded and encoded by the standard library, which refuses line breaks in them."""
    message, made = told.message, EmailMessage(policy=SMTP)
    domain = sender.rpartition("@")[2]
    made["From"] = f"Sluice <{sender}>"
    made["To"] = ", ".join(config.to)
    made["Subject"] = cut(one_line(message.title), MAX_SUBJECT)
    made["Date"] = format_datetime(told.created_at)
    made["Message-ID"] = f"<{told.id}@{domain}>"
    made["References"] = f"<{message.subject}@{domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(plain(message))
    made.add_alternative(rich(message), subtype="html")
    return made


def plain(message: Message) -> str:
    """For those who read text."""
    width = max((len(one_line(fact.name)) for fact in message.facts), default=0)
    facts = "\n".join(f"{one_line(fact.name) + ':':<{width + 1}} {fact.value}" for fact in message.facts)
    link = "" if message.link is None else f"{message.link_label}: {message.link}"
    parts = (one_line(message.title), cut(message.text, MAX_TEXT), facts, link)
    return "\n\n".join(part for part in parts if part) + "\n"


def rich(message: Message) -> str:
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
    text = f'<p style="white-space:pre-wrap">{html.escape(cut(message.text, MAX_TEXT))}</p>' if message.text else ""
    return (
        '<html><body style="font:15px/1.5 system-ui,sans-serif;color:#111;max-width:640px">'
        f'<h1 style="font-size:19px;margin:0 0 12px">{html.escape(one_line(message.title))}</h1>{text}'
        f'<table style="border-collapse:collapse">{facts}</table>{link}</body></html>\n'
    )


async def _send(config: EmailConfig, told: Told, server: MailServer, connected: socket.socket) -> Outcome:
    client = aiosmtplib.SMTP(
        hostname=server.host,
        sock=connected,
        use_tls=server.implicit_tls,
        start_tls=False if server.implicit_tls else (True if server.user is not None else None),
        username=server.user,
        password=server.password,
        local_hostname=server.sender.rpartition("@")[2],  # who greets; by default a look-up in DNS each time
        timeout=TIMEOUT_S,
    )
    try:
        async with asyncio.timeout(TOTAL_S):
            await client.connect()
            refused, _ = await client.send_message(
                compose(config, told, server.sender), sender=server.sender, recipients=config.to
            )
        await _part(client)
    except (aiosmtplib.SMTPException, OSError) as error:  # TimeoutError among the latter
        return _failed(error)
    finally:
        _drop(client)
    taken = len(config.to) - len(refused)
    return Outcome(True, "Delivered." if not refused else f"Delivered to {taken} of {len(config.to)} recipients.")


def _drop(client: aiosmtplib.SMTP) -> None:
    """At once, and with the socket, which is the transport's by now: TLS would wait for the other end's goodbye."""
    transport = client.transport
    client.close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def _part(client: aiosmtplib.SMTP) -> None:
    """With the courtesy of a QUIT. The mail is taken by then, whatever comes of it."""
    try:
        async with asyncio.timeout(PARTING_S):
            await client.quit()
    except (aiosmtplib.SMTPException, OSError):
        pass


def _failed(error: Exception) -> Outcome:
    """Codes are shown, texts of the server are not."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        codes = [one.code for one in error.recipients]
        passing = any(code < PERMANENT for code in codes)
        return Outcome(False, f"The mail server refuses every recipient (SMTP {min(codes)}).", permanent=not passing)
    if isinstance(error, aiosmtplib.SMTPResponseException) and error.code > 0:
        permanent = error.code >= PERMANENT
        said = "refuses it" if permanent else "cannot take it now"
        return Outcome(False, f"The mail server {said} (SMTP {error.code}).", permanent=permanent)
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return Outcome(False, "The certificate of the mail server is not valid.", permanent=True)
    if type(error) in (aiosmtplib.SMTPException, aiosmtplib.SMTPNotSupported):  # no STARTTLS, no AUTH that we know
        return Outcome(False, "The mail server does not offer what it takes to sign in.", permanent=True)
    if isinstance(error, TimeoutError):
        return Outcome(False, "The mail server did not answer in time.")
    return Outcome(False, "The connection to the mail server was lost.")
