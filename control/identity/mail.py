"""Sends the mails of accounts at once, through the operator's server: invitations (`members.invitations`), secrets that
verify an address (`account.verification`), links for logins (`login.challenge`). These modules write the texts.

A caller that presents a secret that was only mailed to an address has access to the mailbox. A mail contains no text of
a tenant (the operator chose the slug of the organization), so a tenant cannot send its own words.
"""

import asyncio
import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final, Literal

import aiosmtplib
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from chassis.errors import Conflict, ServiceUnavailable
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.http.page_links import PageLinks
from control.outbound.egress import Egress, EgressError
from control.outbound.mail_server import MailServer
from control.outbound.smtp import MAIL_POLICY, submit

MAX_IN_FLIGHT: Final = 4  # mails of a process; further mails are refused with 503
MIN_PERMANENT_CODE: Final = 500  # SMTP codes from here on are permanent

MailKind = Literal["invitation", "verification", "login_link"]

log = structlog.get_logger(__name__)


class AccountMailMetrics:
    """Metrics of account mails."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.mails = Counter(
            "sluice_account_mails",
            "Invitations, address verifications and links for logins by mail, by result: sent, rejected (the mail "
            "server rejected the address or the mail), failed (the mail server is unavailable or misconfigured).",
            ("kind", "result"),
            registry=registry,
        )


@dataclass(frozen=True, slots=True)
class AccountMailer:
    """Sends mails of accounts through `server`. Without a server, addresses cannot be verified."""

    server: MailServer | None
    egress: Egress
    base_url: str
    pages: PageLinks
    metrics: AccountMailMetrics
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_IN_FLIGHT), init=False)

    def require_server(self) -> MailServer:
        """The mail server. Raises Conflict when no mail server is configured."""
        if self.server is None:
            raise Conflict("No mail server is configured (SLUICE_CONTROL_SMTP_URL), so no mail can be sent.")
        return self.server

    async def send(
        self, kind: MailKind, address: str, subject: str, lines: list[str], sent_at: datetime, mail_id: str
    ) -> None:
        """Mail these lines to an address. `mail_id` identifies the mail. Raises Conflict, ServiceUnavailable."""
        sender = self.require_server().sender
        mail = EmailMessage(policy=MAIL_POLICY)
        mail["From"] = f"Sluice <{sender}>"
        mail["To"] = address
        mail["Subject"] = subject
        mail["Date"] = format_datetime(sent_at)
        mail["Message-ID"] = f"<{mail_id}@{sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content("\n".join(lines) + "\n")
        if self._slots.locked():
            raise ServiceUnavailable("Too many mails are being sent. Retry later.")
        async with self._slots:
            code = await self._submit(kind, address, mail.as_bytes())
        self.metrics.mails.labels(kind, "sent" if code is None else "rejected").inc()
        if code is not None and code >= MIN_PERMANENT_CODE:
            raise Conflict(f"The mail server rejected the mail (SMTP {code}).")
        if code is not None:
            raise ServiceUnavailable(f"The mail server deferred the mail (SMTP {code}). Retry later.")

    async def _submit(self, kind: MailKind, address: str, mail: bytes) -> int | None:
        """The SMTP code with which the server refused the recipient or the mail, None if it accepted the mail. Raises
        ServiceUnavailable for all other errors, which only the operator can correct.
        """
        try:
            return (await submit(mail, [address], self.egress, self.require_server())).get(address)
        except aiosmtplib.SMTPDataError as error:
            return error.code
        except (EgressError, aiosmtplib.SMTPException, OSError) as error:  # OSError includes TimeoutError
            self.metrics.mails.labels(kind, "failed").inc()
            log.warning(
                "account mail not sent", kind=kind, error=type(error).__name__, code=getattr(error, "code", None)
            )
            raise ServiceUnavailable("The mail server is unavailable. Retry later.") from error


async def require_mail_rate(request: web.Request, org_id: str, recipient: str) -> None:
    """Count a mail of an organization to `recipient`: an address that the organization invites, or the id of an
    account. Raises RateLimited. Mails of other organizations to the same address do not count. Otherwise one
    organization could use up the limit of another, and notice that another organization mails to the address.
    """
    rate_limits = request.app[RATE_LIMITS]
    holder = hashlib.sha256(f"{org_id}\0{recipient}".encode()).hexdigest()
    await rate_limits.take_secondary(request, LimitClass.ACCOUNT_MAIL, holder)
    await rate_limits.take_secondary(request, LimitClass.ORGANIZATION_MAIL, org_id)


def minute(time: datetime) -> str:
    """A time in the format of mails."""
    return time.strftime("%Y-%m-%d %H:%M UTC")
