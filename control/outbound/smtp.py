"""Sends mail to the operator's server, over a socket that the guarded egress has opened."""

import asyncio
import socket
import ssl
from email.policy import SMTP
from typing import Final

import aiosmtplib

from control.outbound.egress import Egress
from control.outbound.mail_server import MailServer

RESPONSE_TIMEOUT_S: Final = 10.0  # for each response of the server
TOTAL_TIMEOUT_S: Final = 17.0  # from the DNS look-up to the server's acceptance
QUIT_TIMEOUT_S: Final = 2.0
MAIL_POLICY: Final = SMTP.clone(cte_type="7bit")  # works with every server


async def submit(mail: bytes, recipients: list[str], egress: Egress, server: MailServer) -> dict[str, int]:
    """Send a mail, within TOTAL_TIMEOUT_S. Returns the refused recipients with their SMTP codes. Raises EgressError,
    SMTPException, OSError (which includes TimeoutError).
    """
    async with asyncio.timeout(TOTAL_TIMEOUT_S) as timeout:
        client = _client(server, await egress.connect(server.host, server.port), egress.tls)
        try:
            await client.connect()
            refused, _ = await client.sendmail(server.sender, recipients, mail)
            timeout.reschedule(None)  # the mail is accepted, whether or not QUIT succeeds
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
        local_hostname=server.sender.rpartition("@")[2],  # for EHLO; the default is a DNS look-up each time
        timeout=RESPONSE_TIMEOUT_S,
    )


def _abort(client: aiosmtplib.SMTP) -> None:
    """Close the connection at once, together with the socket, which the transport owns by now. TLS would wait for the
    peer's close_notify.
    """
    transport = client.transport
    client.close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def _quit(client: aiosmtplib.SMTP) -> None:
    """Send QUIT. The mail is already accepted, so errors are ignored."""
    try:
        async with asyncio.timeout(QUIT_TIMEOUT_S):
            await client.quit()
    except (aiosmtplib.SMTPException, OSError):
        pass
