"""Mails of accounts: invitations, secrets that verify an address, links for logins. They are sent at once, by the
operator's server.

Whoever presents a secret that was mailed to an address and shown to nobody has the mailbox. A mail contains no text of
a tenant (the operator chose the slug of the organization), so nobody can use it to send words of their own.
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
from control.identity.invitation_repository import IssuedInvitation
from control.identity.verification_repository import IssuedVerification
from control.outbound.egress import Egress, EgressError
from control.outbound.smtp import MAIL_POLICY, MailServer, submit

MAX_IN_FLIGHT: Final = 4  # mails of a process; beyond it 503
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
    """Sends mails of accounts through `server`; without one, addresses cannot be verified."""

    server: MailServer | None
    egress: Egress
    base_url: str
    pages: PageLinks
    metrics: AccountMailMetrics
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_IN_FLIGHT), init=False)

    def require_server(self) -> MailServer:
        """Raises Conflict when no mail server is configured."""
        if self.server is None:
            raise Conflict("No mail server is configured (SLUICE_CONTROL_SMTP_URL), so no mail can be sent.")
        return self.server

    async def send_invitation(self, issued: IssuedInvitation, org_slug: str) -> None:
        """Mail the secret of an invitation to its address. Raises Conflict, ServiceUnavailable."""
        invitation = issued.invitation
        lines = [
            f"You are invited to the organization {org_slug} at {self.base_url}, with the role {invitation.role}.",
            "",
            *self._how_to_accept(issued.secret),
            "",
            f"The invitation is valid until {_minute(invitation.expires_at)}. If you do not expect it, ignore this",
            "mail. Do not pass on the token: whoever has it can join with your address.",
        ]
        subject = f"Invitation to the organization {org_slug}"
        mail = self._compose(invitation.email, subject, lines, invitation.created_at, invitation.id)
        await self._send("invitation", invitation.email, mail)

    async def send_verification(self, issued: IssuedVerification, org_slug: str) -> None:
        """Mail a secret that verifies the address of an account. Raises Conflict, ServiceUnavailable."""
        verification = issued.verification
        lines = [
            f"Somebody who is logged in to the organization {org_slug} at {self.base_url}",
            "with this e-mail address asked to verify it. If it was you, use this token there:",
            "",
            f"    {issued.secret}",
            "",
            *self._how_to_verify(issued.secret, org_slug),
            "",
            f"The token is valid until {_minute(verification.expires_at)}, once, and only for the account that asked.",
            "If it was not you, ignore this mail and do not pass on the token: somebody has created an account with",
            "your address, which cannot leave that organization without the token.",
        ]
        mail = self._compose(
            verification.email, "Verify your e-mail address", lines, verification.created_at, issued.mail_id
        )
        await self._send("verification", verification.email, mail)

    async def send_login_link(self, address: str, secret: str, at: datetime) -> None:
        """Mail the secret of a link for a browser that is to log in. Raises Conflict, ServiceUnavailable."""
        link = self.pages.login_link(secret)
        how = ["open this link in the same browser:", "", f"    {link}"]
        if link is None:
            how = ["send this with the e-mail address and the password, as `linkSecret`:", "", f"    {secret}"]
        lines = [
            f"Someone is logging in to {self.base_url} with this e-mail address.",
            "Many wrong passwords were entered for it from other places.",
            f"If this is you, {how[0]}",
            *how[1:],
            "",
            "It is valid for 30 minutes, only in the browser that asked for it. You need your password and your",
            "second factor as usual. If this is not you, ignore this mail. The link alone is not enough to log in.",
        ]
        mail_id = hashlib.sha256(secret.encode()).hexdigest()[:32]
        await self._send("login_link", address, self._compose(address, "Log in to Sluice", lines, at, mail_id))

    def _how_to_accept(self, secret: str) -> list[str]:
        if (link := self.pages.invitation(secret)) is not None:
            return ["Accept it at", "", f"    {link}"]
        return [
            "Accept it with this command. A new account gets the name and the password (at least 12 characters)",
            "in it. If you have verified this address before, use the password of that account, and add its",
            'second factor as "totp" if it has one.',
            "",
            f"    curl -H 'Content-Type: application/json' {self.base_url}/auth/invitations/accept -d '{{",
            f'      "inviteToken": "{secret}",',
            """      "name": "YOUR NAME", "password": "YOUR PASSWORD"}'""",
        ]

    def _how_to_verify(self, secret: str, org_slug: str) -> list[str]:
        if (link := self.pages.verification(org_slug, secret)) is not None:
            return ["or open", "", f"    {link}"]
        return [
            "With the access token of your session, and the password that the account is to have from now on:",
            "",
            "    curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\",
            f"      {self.base_url}/auth/email/verification/confirm \\",
            f"""      -d '{{"token": "{secret}", "password": "YOUR PASSWORD"}}'""",
        ]

    def _compose(self, address: str, subject: str, lines: list[str], at: datetime, mail_id: str) -> EmailMessage:
        sender = self.require_server().sender
        mail = EmailMessage(policy=MAIL_POLICY)
        mail["From"] = f"Sluice <{sender}>"
        mail["To"] = address
        mail["Subject"] = subject
        mail["Date"] = format_datetime(at)
        mail["Message-ID"] = f"<{mail_id}@{sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content("\n".join(lines) + "\n")
        return mail

    async def _send(self, kind: MailKind, address: str, mail: EmailMessage) -> None:
        if self._slots.locked():
            raise ServiceUnavailable("Too many mails are being sent. Retry later.")
        async with self._slots:
            code = await self._submit(kind, address, mail.as_bytes())
        permanent = code is not None and code >= MIN_PERMANENT_CODE
        self.metrics.mails.labels(kind, "sent" if code is None else "rejected").inc()
        if permanent:
            raise Conflict(f"The mail server rejected the mail (SMTP {code}).")
        if code is not None:
            raise ServiceUnavailable(f"The mail server deferred the mail (SMTP {code}). Retry later.")

    async def _submit(self, kind: MailKind, address: str, mail: bytes) -> int | None:
        """The SMTP code with which the server refused the recipient or the mail; None: accepted. Raises
        ServiceUnavailable for all other errors, which concern the operator.
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
    """Count a mail of an organization to `recipient`: an address that it invites, or the id of an account. Raises
    RateLimited. Mails of other organizations to the same address do not count: otherwise one could use up what another
    has, and notice that there is another.
    """
    rate_limits = request.app[RATE_LIMITS]
    holder = hashlib.sha256(f"{org_id}\0{recipient}".encode()).hexdigest()
    await rate_limits.take_secondary(request, LimitClass.ACCOUNT_MAIL, holder)
    await rate_limits.take_secondary(request, LimitClass.ORGANIZATION_MAIL, org_id)


def _minute(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC")
