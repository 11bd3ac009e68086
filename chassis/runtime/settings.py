"""Settings of all services: `SLUICE_<FIELD>` and the top level of the settings file."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote

from chassis.runtime.settings_loader import Port, Settings, SettingsError, setting


class ChassisSettings(Settings, frozen=True, kw_only=True):
    """The settings that every service has: stores, connections, rate limits and shutdown."""

    data: Annotated[str, setting("Directory for all data on disk. It is created with mode 0700.")] = "data"
    host: Annotated[str, setting("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on.", zero="any free port", ge=0, le=65_535)] = 4318
    grpc_port: Annotated[
        Port | None,
        setting(
            "Port to listen on for OTLP/gRPC, on the same address. Used only by `sluice up` and `sluice gateway`.",
            zero="0: any free port; empty: none",
        ),
    ] = 4317
    health_port: Annotated[
        int,
        setting(
            "Second port on which the command listens, on 127.0.0.1. With --workers, this port serves /livez, /readyz "
            "and /metrics for all workers together. Without --workers, this port serves the same paths as the main "
            "port.",
            zero="none",
            ge=0,
            le=65_535,
        ),
    ] = 0
    public_url: Annotated[
        str,
        setting(
            "Base URL that users see, for example in DSNs and in example commands. Single sign-on needs a URL with "
            "https.",
            zero="empty: built from host and port",
        ),
    ] = ""
    clickhouse_url: Annotated[
        str,
        setting(
            "ClickHouse that stores telemetry: chdb:///DIR (embedded) or http(s)://user:password@host:port/database.",
            secret=True,
            shown_default="chdb:// in <data>/clickhouse",
        ),
    ] = ""
    clickhouse_timeout_s: Annotated[
        float,
        setting(
            "How long a call waits for a response of a ClickHouse server. An insert without a response is retried with "
            "the same deduplication token.",
            unit="seconds",
            ge=1,
            le=3_600,
            advanced="ClickHouse is slow, and inserts or reads would succeed if they had more time",
        ),
    ] = 30.0
    clickhouse_memory_bytes: Annotated[
        int,
        setting(
            "Memory limit of the embedded ClickHouse, at least 256 MiB. An insert, merge or read that would exceed "
            "the limit fails. One read may use at most a quarter of the limit. A ClickHouse server has its own limits.",
            unit="bytes",
            zero="two fifths of the machine's memory, or of the memory limit of its control group",
            ge=0,
        ),
    ] = 0
    database_url: Annotated[
        str,
        setting(
            "Database for organizations, projects and keys: sqlite:///FILE or "
            "postgresql://user:password@host:port/name, with libpq options (?sslmode=verify-full).",
            secret=True,
            shown_default="sqlite:// in <data>/sluice.db",
        ),
    ] = ""
    database_connections: Annotated[
        int,
        setting(
            "Database connections per process.",
            unit="connections",
            ge=2,
            le=1_000,
            advanced="control serves many concurrent requests on PostgreSQL, or PostgreSQL permits fewer connections",
        ),
    ] = 5
    database_timeout_s: Annotated[
        float,
        setting(
            "How long a request waits until a database transaction begins, and how long it then waits for each "
            "response of the database. A request that waits longer gets 503.",
            unit="seconds",
            ge=0.05,
            le=600,
            advanced="the database is slow but works, or requests must fail sooner",
        ),
    ] = 5.0
    redis_url: Annotated[
        str,
        setting(
            "Redis through which processes share rates and quotas: redis://user:password@host:port/0, or rediss:// "
            "for TLS.",
            zero="empty: each process enforces rates separately",
            secret=True,
        ),
    ] = ""
    redis_timeout_s: Annotated[
        float,
        setting(
            "How long a request waits for Redis. After that, each process enforces rates separately until Redis "
            "responds again.",
            unit="seconds",
            ge=0.001,
            le=10,
            advanced="a round trip to Redis takes more than a few milliseconds",
        ),
    ] = 0.05
    durability: Annotated[
        Literal["journal", "store", "memory"],
        setting(
            "The guarantee of a 200 from the gateway. journal: the items are on disk. store: the items are in "
            "ClickHouse. memory: no guarantee, because items that are not stored yet are lost with the process."
        ),
    ] = "journal"
    retention_days: Annotated[
        int,
        setting("Age at which spans and logs are deleted.", unit="days", zero="kept forever", ge=0, le=36_500),
    ] = 30
    log_level: Annotated[Literal["debug", "info", "warning", "error"], setting("Lowest severity that is logged.")] = (
        "info"
    )
    max_connections: Annotated[
        int,
        setting(
            "Maximum number of concurrent connections. The limit is lowered if there are too few file descriptors. At "
            "the limit, an idle connection is closed to accept a new connection. If no connection is idle, the new "
            "connection gets 503.",
            unit="connections",
            ge=1,
        ),
    ] = 10_000
    max_connections_per_address: Annotated[
        int,
        setting(
            "Maximum number of concurrent connections per client address (IPv6: per /64). Connections of "
            "trusted proxies do not count. Further connections get 503.",
            unit="connections",
            zero="no limit",
            ge=0,
            advanced="clients connect without a proxy, and one client must not take all connections",
        ),
    ] = 0
    max_head_bytes: Annotated[
        int,
        setting(
            "Maximum size of a request head (request line and headers). A larger head gets 400. Explore's longest "
            "filters need 49,152 bytes.",
            unit="bytes",
            ge=2**13,
            le=2**20,
            advanced="a proxy adds long headers",
        ),
    ] = 2**16
    max_head_buffer_bytes: Annotated[
        int,
        setting(
            "Maximum memory in a process for request heads that are incomplete, long, or queued behind a request in "
            "flight. Above the limit, the connections whose heads take the most memory are closed. The value must be "
            "at least 16 times SLUICE_MAX_HEAD_BYTES.",
            unit="bytes",
            ge=2**17,
            advanced="thousands of clients send long heads at the same time, or memory is scarce",
        ),
    ] = 2**26
    header_timeout_s: Annotated[
        float,
        setting(
            "How long a connection may take to send a complete request head. Then the connection is closed.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="clients connect over very slow links",
        ),
    ] = 10.0
    body_timeout_s: Annotated[
        float,
        setting(
            "How long a request body may take to arrive. After this time, the request gets 503, and the connection is "
            "closed. The body of an export may take longer if it arrives at SLUICE_BODY_MIN_RATE or faster and never "
            "pauses for longer than this time.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="clients send small bodies over very slow links",
        ),
    ] = 15.0
    body_min_rate: Annotated[
        int,
        setting(
            "Minimum rate of the body of an export. A body that arrives at this rate or faster may take longer in "
            "total than SLUICE_BODY_TIMEOUT_S, but must not pause for longer than SLUICE_BODY_TIMEOUT_S.",
            unit="bytes/s",
            zero="the body must arrive within SLUICE_BODY_TIMEOUT_S",
            ge=0,
            advanced="exporters send large bodies over links slower than this rate",
        ),
    ] = 8_192
    keepalive_timeout_s: Annotated[
        float,
        setting(
            "Idle time after which a connection is closed. Choose a longer time than the idle timeout of your load "
            "balancer.",
            unit="seconds",
            ge=0.05,
            le=3_600,
        ),
    ] = 75.0
    send_timeout_s: Annotated[
        float,
        setting(
            "Interval in which Sluice measures how fast a client reads its response. If the rate in an interval is "
            "below SLUICE_SEND_MIN_RATE and the client has not read the whole response, the connection is closed.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="dashboards read large responses over links that stall for longer than this time",
        ),
    ] = 60.0
    send_min_rate: Annotated[
        int,
        setting(
            "Minimum rate at which a client must read a response. A client that reads at this rate or faster has no "
            "time limit.",
            unit="bytes/s",
            zero="at least one byte per SLUICE_SEND_TIMEOUT_S",
            ge=0,
            advanced="dashboards read large responses over links slower than this rate",
        ),
    ] = 8_192
    drain_delay_s: Annotated[
        float,
        setting(
            "How long Sluice still accepts connections after SIGTERM. During this time /readyz fails, so that load "
            "balancers send no new requests.",
            unit="seconds",
            zero="stop accepting immediately",
            ge=0,
            le=600,
        ),
    ] = 0.0
    drain_timeout_s: Annotated[
        float,
        setting("How long requests in flight may take to finish after SIGTERM.", unit="seconds", ge=0.05, le=600),
    ] = 20.0
    api_rate: Annotated[
        int,
        setting(
            "Sustained rate of requests per principal and organization. Explore's analyses do not count (see "
            "SLUICE_ANALYSIS_RATE). Further requests get 429. Without Redis, each process counts its own requests for "
            "this setting and for all other rates.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 3_000
    api_burst: Annotated[
        int, setting("Burst of SLUICE_API_RATE: requests allowed at once.", unit="requests", ge=1, le=10_000_000)
    ] = 600
    analysis_rate: Annotated[
        int,
        setting(
            "Sustained rate of explore's analyses (aggregates, figures, heatmaps, comparisons, service maps) per "
            "principal and organization. Analyses do not count towards SLUICE_API_RATE. Further analyses get 429.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 600
    analysis_burst: Annotated[
        int,
        setting(
            "Burst of SLUICE_ANALYSIS_RATE: requests allowed at once.",
            unit="requests",
            ge=1,
            le=10_000_000,
            advanced="a dashboard loads more panels at the same time",
        ),
    ] = 120
    approval_rate: Annotated[
        int,
        setting(
            "Sustained rate of approval requests per user and organization, including the user's agents and "
            "services. Further requests get 429. Approval requests also count towards SLUICE_API_RATE.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="agents request approvals more often",
        ),
    ] = 120
    approval_burst: Annotated[
        int,
        setting(
            "Burst of SLUICE_APPROVAL_RATE: requests allowed at once.",
            unit="requests",
            ge=1,
            le=10_000_000,
            advanced="agents request more approvals at the same time",
        ),
    ] = 60
    channel_test_rate: Annotated[
        int,
        setting(
            "Rate and burst of notification channel tests per principal and organization. Further tests get 429. Tests "
            "also count towards SLUICE_API_RATE.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="a script sets up channels and tests each of them",
        ),
    ] = 20
    scim_rate: Annotated[
        int,
        setting(
            "Rate and burst of SCIM requests per organization. Further requests get 429.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 6_000
    webhook_rate: Annotated[
        int,
        setting(
            "Rate and burst of verified webhook requests per integration. Each chat platform counts as one "
            "integration, and so does the payment processor: their requests for all organizations are counted "
            "together. Further requests get 429.",
            unit="requests/s",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 2_000
    failed_webhook_rate: Annotated[
        int,
        setting(
            "Rate and burst of webhook requests without a valid signature, per client address. Requests that name an "
            "integration are counted separately for each integration. Requests that name no integration are counted "
            "together. Further requests get 429 before their body is read.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 30
    visitor_rate: Annotated[
        int,
        setting(
            "Rate and burst of session requests (login, refresh, logout, invitation acceptance, signing keys) per "
            "client address. Successful and failed requests count. Further requests get 429 before their body is read.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 300
    refresh_rate: Annotated[
        int,
        setting(
            "Rate and burst of refreshes per session. Further refreshes get 429, and the session stays valid.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="a client refreshes its session more often than every two seconds",
        ),
    ] = 30
    failed_bearer_rate: Annotated[
        int,
        setting(
            "Rate and burst of failed authentications (401) with access tokens per client address (IPv6: per /64). "
            "Further requests of the address get 429, even with a valid token. Expired tokens do not count.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="many users share an address, and invalid tokens of some users block the other users",
        ),
    ] = 30
    otlp_rate: Annotated[
        int,
        setting(
            "Sustained rate of export requests per project key, unless the key has its own rate. Further requests get "
            "429 before their body is read.",
            unit="requests/s",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 5_000
    otlp_burst: Annotated[
        int, setting("Burst of SLUICE_OTLP_RATE: requests allowed at once.", unit="requests", ge=1, le=10_000_000)
    ] = 10_000
    failed_key_rate: Annotated[
        int,
        setting(
            "Rate and burst of failed authentications (401) with project keys per client address (IPv6: per /64). "
            "Further exports of the address get 429, except exports with a valid key that the process has in its "
            "cache.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="many senders share an address, and wrong keys of one sender block new keys of the other senders",
        ),
    ] = 30
    failed_login_rate: Annotated[
        int,
        setting(
            "Rate and burst of failed logins with one e-mail address and organization from one client address (IPv6: "
            "/64). Wrong codes of the second factor, and wrong passwords or codes with which a session confirms a "
            "change, are counted per account and have the same limit. Further attempts get 429, even with correct "
            "credentials.",
            unit="attempts/15 min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 5
    new_address_login_rate: Annotated[
        int,
        setting(
            "Rate and burst of failed logins to one e-mail address from all new client addresses together. A client "
            "address is new if the account has not logged in from it in the last 30 days. Further logins from new "
            "client addresses need a proof of work or a mailed link.",
            unit="attempts/h",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 50
    failed_sso_rate: Annotated[
        int,
        setting(
            "Rate and burst of failed single sign-ons per client address. Unfinished single sign-ons have the same "
            "limit, and are counted separately. Further single sign-ons get 429. Successful single sign-ons do not "
            "count.",
            unit="attempts/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="many users share an address, and their provider often fails",
        ),
    ] = 20
    sso_refusal_rate: Annotated[
        int,
        setting(
            "Rate and burst at which refused single sign-ons are recorded in the audit log of an organization. Further "
            "refused single sign-ons are counted, but not recorded.",
            unit="events/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="attackers try the addresses of an organization, and you need every attempt in its audit log",
        ),
    ] = 60
    account_mail_rate: Annotated[
        int,
        setting(
            "Rate and burst of mails. Three kinds of mails are counted separately: invitations and address "
            "verifications that an organization mails to one address, login links that are mailed to one account, and "
            "login links that one client address requests. Further requests get 429.",
            unit="mails/h",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="mails to one address are often lost, and must be sent again",
        ),
    ] = 5
    organization_mail_rate: Annotated[
        int,
        setting(
            "Rate and burst of all invitations and address verifications that an organization mails. Further requests "
            "get 429.",
            unit="mails/h",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="an organization must invite more than 100 users within an hour by mail",
        ),
    ] = 100
    trusted_proxies: Annotated[
        tuple[str, ...],
        setting(
            "Addresses or networks of proxies whose X-Forwarded-For is trusted, comma-separated.",
            zero="empty: none",
        ),
    ] = ()
    metrics_token: Annotated[
        str,
        setting("Bearer token that gives other machines access to /metrics.", zero="empty: loopback only", secret=True),
    ] = ""

    def validate(self) -> None:
        """Reject proxies that are not networks, unsupported URL schemes, and a path that chDB would truncate."""
        for network in self.trusted_proxies:
            _require_network(network)
        if self.max_head_buffer_bytes < 16 * self.max_head_bytes:
            raise SettingsError("SLUICE_MAX_HEAD_BUFFER_BYTES must be at least 16 times SLUICE_MAX_HEAD_BYTES.")
        if self.clickhouse_url and not self.clickhouse_url.startswith(("chdb://", "http://", "https://")):
            raise SettingsError("SLUICE_CLICKHOUSE_URL must start with chdb://, http:// or https://.")
        # chDB has no escape for '?'.
        if self.uses_embedded_clickhouse and "?" in unquote(self.effective_clickhouse_url):
            raise SettingsError(
                "SLUICE_DATA, or the directory of SLUICE_CLICKHOUSE_URL, must not contain '?' in its absolute path: "
                "the embedded ClickHouse would truncate the path there and store its data elsewhere."
            )
        if self.database_url and not self.database_url.startswith(("sqlite://", "postgresql://")):
            raise SettingsError("SLUICE_DATABASE_URL must start with sqlite:// or postgresql://.")
        if self.redis_url and not self.redis_url.startswith(("redis://", "rediss://")):
            raise SettingsError("SLUICE_REDIS_URL must start with redis:// or rediss://.")
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            raise SettingsError("SLUICE_PUBLIC_URL must start with http:// or https://.")

    @property
    def data_dir(self) -> Path:
        """Absolute path of the data directory."""
        return Path(self.data).absolute()

    @property
    def effective_clickhouse_url(self) -> str:
        """URL of ClickHouse. The default is the embedded engine in the data directory."""
        return self.clickhouse_url or f"chdb://{quote(str(self.data_dir / 'clickhouse'))}"

    @property
    def effective_database_url(self) -> str:
        """URL of the database. The default is a SQLite file in the data directory."""
        return self.database_url or f"sqlite:///{quote(str(self.data_dir / 'sluice.db'))}"

    @property
    def uses_embedded_clickhouse(self) -> bool:
        """Whether ClickHouse runs inside this process."""
        return self.effective_clickhouse_url.startswith("chdb:")

    @property
    def uses_sqlite(self) -> bool:
        """Whether the relational database is a SQLite file."""
        return self.effective_database_url.startswith("sqlite:")

    @property
    def base_url(self) -> str:
        """The base URL shown to users, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")

    @property
    def grpc_address(self) -> str | None:
        """Host and port of OTLP/gRPC. None when OTLP/gRPC is off."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if self.grpc_port is None else f"{host}:{self.grpc_port}"


def _require_network(text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError as error:
        raise SettingsError(f"SLUICE_TRUSTED_PROXIES: {text!r} is neither an address nor a network.") from error
