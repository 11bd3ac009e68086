"""Settings of the control service: `SLUICE_CONTROL_<FIELD>` and the table `[control]` of the settings file."""

import re
from ipaddress import ip_address, ip_network
from typing import Annotated, ClassVar, Final

import msgspec

from chassis.runtime.settings_loader import Settings, SettingsError, setting
from control.notify.channels.config import ChannelRules, MailAddress
from control.outbound.egress_policy import EgressPolicy, parse_url
from control.outbound.mail_server import MailServer
from control.plans import Plans

MAX_SECRETS: Final = 5  # each costs a digest of every body
_SIGNING_SECRET: Final = re.compile(r"[!-~]{8,256}")
_PUBLIC_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")


class ControlSettings(Settings, frozen=True, kw_only=True):
    """Cursor and encryption keys, and where messages may be delivered."""

    prefix: ClassVar[str] = "SLUICE_CONTROL_"

    cursor_key: Annotated[
        str,
        setting(
            "Key that signs page cursors and login challenges. Use the same key for all control processes.",
            zero="empty: the file cursor.key in the data directory, created at the first start",
            secret=True,
        ),
    ] = ""
    max_body_bytes: Annotated[
        int,
        setting(
            "Maximum size of a request body. A larger body is answered with 413.",
            unit="bytes",
            ge=1_024,
            le=16 * 2**20,
            advanced="requests have longer texts",
        ),
    ] = 256 * 1_024
    sealing_keys: Annotated[
        str,
        setting(
            "Keys that encrypt secrets, as kid:base64, comma-separated. The first key encrypts, all keys decrypt. "
            "Use the same keys for all control processes. `sluice secrets rotate` re-encrypts stored secrets with the "
            "first key.",
            zero="empty: the file sealing.keys in the data directory, created at the first start",
            secret=True,
        ),
    ] = ""
    delivery_retention_days: Annotated[
        int,
        setting("Age at which finished deliveries are deleted.", unit="days", zero="kept forever", ge=0, le=36_500),
    ] = 30
    erasure_filter_days: Annotated[
        int,
        setting(
            "How long Sluice keeps the filters of completed erasures, to apply them to a restored backup. Choose at "
            "least the age of your oldest backup. Filters may contain personal data.",
            unit="days",
            zero="kept forever",
            ge=0,
            le=36_500,
        ),
    ] = 90
    issue_retention_days: Annotated[
        int,
        setting(
            "How long an issue is kept after its last occurrence or change.",
            unit="days",
            zero="kept forever",
            ge=0,
            le=36_500,
        ),
    ] = 90
    page_url: Annotated[
        str,
        setting(
            "Base URL of a web page of your own. Messages link to this page instead of the page of Sluice. The paths "
            "after the base URL are /orgs/ORG/approval-requests/ID, /orgs/ORG/projects/PROJECT/issues/ID, "
            "/invitations#inviteToken=TOKEN, /email-verification#token=TOKEN and /login#linkSecret=TOKEN.",
            zero="empty: messages link to the page of Sluice, or contain a command if SLUICE_PUBLIC_URL is not set",
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
        bool,
        setting(
            "Whether channels may deliver over http://, in addition to https://. Every network on the way can then "
            "read the messages.",
            advanced="a receiver in your network has no TLS",
        ),
    ] = False
    chat_hosts: Annotated[
        tuple[str, ...],
        setting(
            "Hosts that chat channels may post to besides the platforms' own hosts, comma-separated. .example.org "
            "matches all hosts below example.org, and * matches any host.",
            zero="empty: only the platforms' own hosts",
        ),
    ] = ()
    chat_a_api: Annotated[
        str,
        setting(
            "Base URL of the platform API that chat-a bots post to.",
            advanced="a chat platform with the same API is used",
        ),
    ] = "https://slack.com/api"
    pager_url: Annotated[
        str,
        setting(
            "URL that pager channels send events to (Events API v2).",
            advanced="a pager platform with the same API is used",
        ),
    ] = "https://events.pagerduty.com/v2/enqueue"
    smtp_url: Annotated[
        str,
        setting(
            "SMTP server for e-mail: smtp://user:password@host:587 (with STARTTLS, which a password requires), or "
            "smtps:// (TLS from the start).",
            zero="empty: no e-mail is sent",
            secret=True,
        ),
    ] = ""
    smtp_from: Annotated[str, setting("Sender address of e-mail.")] = "sluice@localhost"
    smtp_allow: Annotated[
        tuple[str, ...],
        setting(
            "Private networks in which the SMTP server may be, comma-separated.",
            zero="empty: public addresses only",
            advanced="the mail server has a private address",
        ),
    ] = ()

    proof_max_bytes: Annotated[
        int,
        setting(
            "Maximum size of all proof bundles of an organization. A bundle that does not fit gets 409.",
            unit="bytes",
            zero="no limit",
            ge=0,
            le=2**50,
        ),
    ] = 10 * 2**30
    source_map_max_bytes: Annotated[
        int,
        setting(
            "Maximum size of all source maps of a project, in compressed form. If an upload does not fit, Sluice "
            "deletes the source maps of the releases that were uploaded first.",
            unit="bytes",
            zero="no limit",
            ge=0,
            le=2**50,
        ),
    ] = 2**30
    warehouse_interval_s: Annotated[
        float,
        setting(
            "Time between two exports of a warehouse sink.",
            unit="seconds",
            zero="sinks export on request only",
            ge=0,
            le=86_400,
        ),
    ] = 900.0
    webhook_max_body_bytes: Annotated[
        int,
        setting(
            "Maximum size of the body of an inbound webhook. A larger body is answered with 413.",
            unit="bytes",
            ge=65_536,
            le=32 * 2**20,
            advanced="a platform sends larger bodies",
        ),
    ] = 8 * 2**20
    chat_a_signing_secrets: Annotated[
        tuple[str, ...],
        setting(
            "Signing secrets of your chat-a app, comma-separated. During a rotation there are two.",
            zero="empty: no user can act from chat-a",
            secret=True,
        ),
    ] = ()
    chat_b_public_key: Annotated[
        str,
        setting("Public key of your chat-b app, in hexadecimal digits.", zero="empty: no user can act from chat-b"),
    ] = ""
    payments_secrets: Annotated[
        tuple[str, ...],
        setting(
            "Signing secrets of the payment processor's webhook, comma-separated. During a rotation there are two.",
            zero="empty: no payment events are accepted",
            secret=True,
        ),
    ] = ()
    plans: Annotated[
        tuple[str, ...],
        setting(
            "Plans of the prices that the payment processor reports, comma-separated, as PRICE=PLAN:ITEMS. PRICE is "
            "the id or lookup key of the price, PLAN the name of the plan, and ITEMS the number of items per month (0:"
            " no quota).",
            zero="empty: subscriptions change no quota",
        ),
    ] = ()
    free_plan: Annotated[
        str,
        setting(
            "Plan of an organization whose subscription has ended: PLAN:ITEMS.",
            zero="empty: the organization keeps its quota",
        ),
    ] = ""

    sso_allow: Annotated[
        tuple[str, ...],
        setting(
            "Private networks in which OpenID providers may be, comma-separated.",
            zero="empty: public addresses only",
        ),
    ] = ()
    sso_ports: Annotated[
        tuple[int, ...],
        setting(
            "Ports on which OpenID providers at public addresses may listen, comma-separated.",
            unit="ports",
            advanced="a provider listens on another port",
        ),
    ] = (443,)
    sso_nameservers: Annotated[
        tuple[str, ...],
        setting(
            "IP addresses of name servers, comma-separated. Sluice asks them for the TXT records that prove domains.",
            zero="empty: the name servers of this machine",
            advanced="this machine's name servers do not see public records",
        ),
    ] = ()

    def validate(self) -> None:
        """Reject invalid networks, ports, page URLs, sender addresses, mail servers, plans and signing secrets."""
        allowed = {"EGRESS_ALLOW": self.egress_allow, "SMTP_ALLOW": self.smtp_allow, "SSO_ALLOW": self.sso_allow}
        for name, networks in allowed.items():
            for network in networks:
                _require_network(f"{self.prefix}{name}", network)
        for name, ports in (("EGRESS_PORTS", self.egress_ports), ("SSO_PORTS", self.sso_ports)):
            if any(not 1 <= port <= 65_535 for port in ports):
                raise SettingsError(f"{self.prefix}{name}: ports must be from 1 to 65535.")
        for address in self.sso_nameservers:
            _require_address(f"{self.prefix}SSO_NAMESERVERS", address)
        if self.page_url:
            try:
                parse_url(self.page_url, allow_http=True)
            except ValueError as error:
                raise SettingsError(f"{self.prefix}PAGE_URL: {error}") from None
        try:
            msgspec.convert(self.smtp_from, MailAddress)
        except msgspec.ValidationError:
            raise SettingsError(f"{self.prefix}SMTP_FROM must be an e-mail address.") from None
        self._validate_chats()
        try:
            self.mail_server()
        except ValueError as error:
            raise SettingsError(f"{self.prefix}SMTP_URL {error}.") from None
        self._validate_payments()

    def _validate_payments(self) -> None:
        secrets = self.payments_secrets
        if len(secrets) > MAX_SECRETS or any(_SIGNING_SECRET.fullmatch(secret) is None for secret in secrets):
            raise SettingsError(
                f"{self.prefix}PAYMENTS_SECRETS: at most {MAX_SECRETS} secrets of 8 to 256 ASCII characters, no spaces."
            )
        for name, plans, free_plan in (("PLANS", self.plans, ""), ("FREE_PLAN", (), self.free_plan)):
            try:
                Plans.parse(plans, free_plan)
            except ValueError as error:
                raise SettingsError(f"{self.prefix}{name}: {error}.") from None

    def _validate_chats(self) -> None:
        if self.chat_b_public_key and _PUBLIC_KEY.fullmatch(self.chat_b_public_key) is None:
            raise SettingsError(f"{self.prefix}CHAT_B_PUBLIC_KEY must have 64 hexadecimal digits.")
        if not all(_SIGNING_SECRET.fullmatch(secret) for secret in self.chat_a_signing_secrets):
            raise SettingsError(
                f"{self.prefix}CHAT_A_SIGNING_SECRETS: secrets must have 8 to 256 ASCII characters, no spaces."
            )

    @property
    def payment_plans(self) -> Plans:
        """The plans by price, and the free plan."""
        return Plans.parse(self.plans, self.free_plan)

    @property
    def egress_policy(self) -> EgressPolicy:
        """Destinations that channels may deliver to."""
        allowed = tuple(ip_network(text, strict=False) for text in self.egress_allow)
        return EgressPolicy(
            allowed, frozenset(self.egress_ports) | ({80} if self.egress_http else set()), self.egress_http
        )

    @property
    def provider_policy(self) -> EgressPolicy:
        """Destinations that OpenID providers may have. Only https is permitted."""
        allowed = tuple(ip_network(text, strict=False) for text in self.sso_allow)
        return EgressPolicy(allowed, frozenset(self.sso_ports))

    @property
    def mail_policy(self) -> EgressPolicy:
        """Destinations that the mail server may have."""
        server = self.mail_server()
        allowed = tuple(ip_network(text, strict=False) for text in self.smtp_allow)
        return EgressPolicy(allowed, frozenset() if server is None else frozenset({server.port}))

    @property
    def channel_rules(self) -> ChannelRules:
        """Rules that channel configs must satisfy."""
        return ChannelRules(self.egress_policy, self.chat_hosts)

    @property
    def chat_platforms(self) -> tuple[str, ...]:
        """The platforms whose users can act in Sluice."""
        configured = {"chat-a": self.chat_a_signing_secrets, "chat-b": self.chat_b_public_key}
        return tuple(name for name, value in configured.items() if value)

    def mail_server(self) -> MailServer | None:
        """The configured mail server, None if no server is configured. Raises ValueError for an invalid URL."""
        return MailServer.parse(self.smtp_url, self.smtp_from) if self.smtp_url else None


def _require_address(name: str, text: str) -> None:
    try:
        ip_address(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {text!r} is not an IP address.") from error


def _require_network(name: str, text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError as error:
        raise SettingsError(f"{name}: {text!r} is neither an address nor a network.") from error
