"""Settings of the control service: `SLUICE_CONTROL_<FIELD>`, or the table [control] of the settings file."""

from ipaddress import ip_network
from typing import Annotated, ClassVar

import msgspec

from chassis.runtime.settings_loader import Settings, SettingsError, setting
from control.channels.config import MailAddress
from control.channels.validation import ChannelRules
from control.outbound.egress_policy import EgressPolicy, parse_url
from control.outbound.mail_server import MailServer


class ControlSettings(Settings, frozen=True, kw_only=True):
    """Settings of the control service."""

    prefix: ClassVar[str] = "SLUICE_CONTROL_"

    cursor_key: Annotated[
        str,
        setting(
            "Key that signs page cursors; give the same to every control process.",
            zero="empty: the file cursor.key in the data directory, made at first start",
            secret=True,
        ),
    ] = ""
    max_body_bytes: Annotated[
        int, setting("Largest request body; a larger one is answered 413.", unit="bytes", ge=1_024, le=16 * 2**20)
    ] = 256 * 1_024
    sealing_keys: Annotated[
        str,
        setting(
            "Keys that secrets are encrypted with, kid:base64 and comma-separated; the first encrypts, all decrypt. "
            "Give the same to every control process; `sluice secrets rotate` brings what is stored to the first one.",
            zero="empty: the file sealing.keys in the data directory, made at first start",
            secret=True,
        ),
    ] = ""
    delivery_retention_days: Annotated[
        int,
        setting(
            "Age at which deliveries that have ended are dropped.", unit="days", zero="kept for ever", ge=0, le=36_500
        ),
    ] = 30
    page_url: Annotated[
        str,
        setting(
            "Where people open in a browser what messages tell of: the base URL of a page of yours, which "
            "/orgs/ORG/approval-requests/ID is added to.",
            zero="empty: messages have no link, but the command that approves",
        ),
    ] = ""
    egress_allow: Annotated[
        tuple[str, ...],
        setting(
            "Private networks that channels may deliver to, comma-separated.",
            zero="empty: public addresses only",
        ),
    ] = ()
    egress_ports: Annotated[
        tuple[int, ...],
        setting("Ports of public addresses that channels may deliver to, comma-separated.", unit="ports"),
    ] = (443,)
    egress_http: Annotated[
        bool, setting("Whether channels may deliver over http:// too, which shows messages to whoever is in between.")
    ] = False
    chat_hosts: Annotated[
        tuple[str, ...],
        setting(
            "Hosts that channels of chat platforms may post to besides the platforms' own, comma-separated; "
            ".example.org stands for all below, * for any.",
            zero="empty: the platforms' own",
        ),
    ] = ()
    chat_a_api: Annotated[str, setting("Where bots of chat-a post: the base URL of the platform's API.")] = (
        "https://slack.com/api"
    )
    pager_url: Annotated[str, setting("Where events of pager channels go: Events API v2.")] = (
        "https://events.pagerduty.com/v2/enqueue"
    )
    smtp_url: Annotated[
        str,
        setting(
            "Server that e-mail goes through: smtp://user:password@host:587 (with STARTTLS, which a password needs), "
            "or smtps:// (TLS from the start).",
            zero="empty: no e-mail is sent",
            secret=True,
        ),
    ] = ""
    smtp_from: Annotated[str, setting("Address that e-mail comes from.")] = "sluice@localhost"
    smtp_allow: Annotated[
        tuple[str, ...],
        setting(
            "Private networks that the SMTP server may be in, comma-separated.", zero="empty: public addresses only"
        ),
    ] = ()

    def validate(self) -> None:
        """Raises SettingsError for invalid networks, ports and URLs, and for an invalid sender address."""
        for name, networks in (("EGRESS_ALLOW", self.egress_allow), ("SMTP_ALLOW", self.smtp_allow)):
            for network in networks:
                _require_network(f"{self.prefix}{name}", network)
        if any(not 1 <= port <= 65_535 for port in self.egress_ports):
            raise SettingsError(f"{self.prefix}EGRESS_PORTS: ports are from 1 to 65535.")
        if self.page_url:
            try:
                parse_url(self.page_url, allow_http=True)
            except ValueError as error:
                raise SettingsError(f"{self.prefix}PAGE_URL: {error}") from None
        try:
            msgspec.convert(self.smtp_from, MailAddress)
        except msgspec.ValidationError:
            raise SettingsError(f"{self.prefix}SMTP_FROM must be an e-mail address.") from None
        try:
            self.mail_server()
        except ValueError as error:
            raise SettingsError(f"{self.prefix}SMTP_URL {error}.") from None

    @property
    def egress_policy(self) -> EgressPolicy:
        """Networks, ports and schemes that channels may deliver to."""
        allowed = tuple(ip_network(text, strict=False) for text in self.egress_allow)
        return EgressPolicy(
            allowed, frozenset(self.egress_ports) | ({80} if self.egress_http else set()), self.egress_http
        )

    @property
    def mail_policy(self) -> EgressPolicy:
        """Network and port of the SMTP server; no port is allowed where no server is configured."""
        server = self.mail_server()
        allowed = tuple(ip_network(text, strict=False) for text in self.smtp_allow)
        return EgressPolicy(allowed, frozenset() if server is None else frozenset({server.port}))

    @property
    def channel_rules(self) -> ChannelRules:
        """The rules that channel configurations are validated against."""
        return ChannelRules(self.egress_policy, self.chat_hosts)

    def mail_server(self) -> MailServer | None:
        """The SMTP server, None if none is configured. Raises ValueError for an invalid URL."""
        return MailServer.parse(self.smtp_url, self.smtp_from) if self.smtp_url else None


def _require_network(name: str, text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError as error:
        raise SettingsError(f"{name}: {text!r} is no address and no network.") from error
