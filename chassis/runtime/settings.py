"""Settings of all services: `SLUICE_<FIELD>` and the top level of the settings file."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote

from chassis.runtime.settings_loader import Port, Settings, SettingsError, setting


class ChassisSettings(Settings, frozen=True, kw_only=True):
    """Stores, connections, rate limits and shutdown; every service has them."""

    data: Annotated[str, setting("Directory for all data on disk; created with mode 0700.")] = "data"
    host: Annotated[str, setting("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on.", zero="any free port", ge=0, le=65_535)] = 4318
    grpc_port: Annotated[
        Port | None,
        setting(
            "Port to listen on for OTLP/gRPC, on the same address; of `sluice up` and `sluice gateway`.",
            zero="0: any free port; empty: none",
        ),
    ] = 4317
    health_port: Annotated[
        int,
        setting(
            "Second port on 127.0.0.1, for this command only. With --workers it serves /livez, /readyz and /metrics "
            "of all workers; without, the same paths as the main port.",
            zero="none",
            ge=0,
            le=65_535,
        ),
    ] = 0
    public_url: Annotated[
        str,
        setting(
            "Base URL that users see, in DSNs, examples and single sign-on, which needs https.",
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
            "How long a call waits for a ClickHouse server to respond; an insert is then retried with the same "
            "deduplication token.",
            unit="seconds",
            ge=1,
            le=3_600,
            advanced="a slow ClickHouse would finish inserts or reads that time out",
        ),
    ] = 30.0
    clickhouse_memory_bytes: Annotated[
        int,
        setting(
            "Memory limit of the embedded ClickHouse, at least 256 MiB. An insert, merge or read that would exceed "
            "it fails; one read may use a quarter of it. A ClickHouse server has its own limits.",
            unit="bytes",
            zero="two fifths of the memory of the machine, or of its control group",
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
            advanced="control serves many concurrent requests on PostgreSQL, or PostgreSQL allows fewer",
        ),
    ] = 5
    database_timeout_s: Annotated[
        float,
        setting(
            "How long a request waits for a database transaction, and for each response within it; then 503.",
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
            "How long a request waits for Redis; then each process enforces rates separately until Redis again.",
            unit="seconds",
            ge=0.001,
            le=10,
            advanced="Redis is farther away than a few milliseconds",
        ),
    ] = 0.05
    durability: Annotated[
        Literal["journal", "store", "memory"],
        setting(
            "What a 200 from the gateway guarantees. journal: the items are on disk; store: they are in ClickHouse; "
            "memory: nothing, items not stored yet are lost with the process."
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
            "Concurrent connections; lowered if there are too few file descriptors. At the limit, an idle connection "
            "is closed to accept a new one; if none is idle, the new one gets 503.",
            unit="connections",
            ge=1,
        ),
    ] = 10_000
    max_connections_per_address: Annotated[
        int,
        setting(
            "Concurrent connections per client address (IPv6: per /64), except trusted proxies; above it 503.",
            unit="connections",
            zero="no limit",
            ge=0,
            advanced="one client must not take all connections, and no proxy stands in front",
        ),
    ] = 0
    max_head_bytes: Annotated[
        int,
        setting(
            "Size of a request head (request line and headers); above it 400. Explore's longest filters need 49,152.",
            unit="bytes",
            ge=2**13,
            le=2**20,
            advanced="a proxy adds long headers",
        ),
    ] = 2**16
    max_head_buffer_bytes: Annotated[
        int,
        setting(
            "Memory for request heads in a process: those that are incomplete, long, or queued behind a request in "
            "flight. Above it connections are closed, those that hold most first. At least 16 times "
            "SLUICE_MAX_HEAD_BYTES.",
            unit="bytes",
            ge=2**17,
            advanced="thousands of clients send long heads at once, or memory is scarce",
        ),
    ] = 2**26
    header_timeout_s: Annotated[
        float,
        setting(
            "How long a connection may take to send a complete request head; then it is closed.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="clients connect over very slow links",
        ),
    ] = 10.0
    body_timeout_s: Annotated[
        float,
        setting(
            "How long a request body may take to arrive, or pause if it arrives at SLUICE_BODY_MIN_RATE or above; "
            "then 503 and the connection is closed.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="clients send small bodies over very slow links",
        ),
    ] = 15.0
    body_min_rate: Annotated[
        int,
        setting(
            "Minimum rate of an export's body; a body at this rate or above has no time limit.",
            unit="bytes/s",
            zero="the body must arrive within SLUICE_BODY_TIMEOUT_S",
            ge=0,
            advanced="exporters send large bodies over links slower than this",
        ),
    ] = 8_192
    keepalive_timeout_s: Annotated[
        float,
        setting(
            "Idle time after which a connection is closed; keep it above the idle timeout of a load balancer.",
            unit="seconds",
            ge=0.05,
            le=3_600,
        ),
    ] = 75.0
    send_timeout_s: Annotated[
        float,
        setting(
            "Interval over which the read rate of a client is measured. Below SLUICE_SEND_MIN_RATE its connection is "
            "closed, unless it has read the rest of the response.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="dashboards read large responses over links that stall for longer",
        ),
    ] = 60.0
    send_min_rate: Annotated[
        int,
        setting(
            "Minimum rate at which a client must read a response; at this rate or above there is no time limit.",
            unit="bytes/s",
            zero="at least one byte per SLUICE_SEND_TIMEOUT_S",
            ge=0,
            advanced="dashboards read large responses over links slower than this",
        ),
    ] = 8_192
    drain_delay_s: Annotated[
        float,
        setting(
            "After SIGTERM, how long /readyz fails while connections are still accepted.",
            unit="seconds",
            zero="stop accepting at once",
            ge=0,
            le=600,
        ),
    ] = 0.0
    drain_timeout_s: Annotated[
        float,
        setting("After SIGTERM, how long requests in flight may take to finish.", unit="seconds", ge=0.05, le=600),
    ] = 20.0
    api_rate: Annotated[
        int,
        setting(
            "Sustained rate of requests per principal and organization, except explore's analyses; above it 429. "
            "Without Redis, each process enforces this and every other rate separately.",
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
            "principal and organization, counted separately; above it 429.",
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
            advanced="a dashboard loads more panels at once",
        ),
    ] = 120
    approval_rate: Annotated[
        int,
        setting(
            "Sustained rate of approval requests per user and organization, including the user's agents and "
            "services; above it 429. They also count towards SLUICE_API_RATE.",
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
            advanced="agents request more approvals at once",
        ),
    ] = 60
    channel_test_rate: Annotated[
        int,
        setting(
            "Rate and burst of notification channel tests per principal and organization; above it 429. They also "
            "count towards SLUICE_API_RATE.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="channels are set up by a script that tests each",
        ),
    ] = 20
    scim_rate: Annotated[
        int,
        setting(
            "Rate and burst of SCIM requests per organization; above it 429.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 6_000
    webhook_rate: Annotated[
        int,
        setting(
            "Rate and burst of verified webhooks per integration, and per platform that serves the whole deployment; "
            "above it 429.",
            unit="requests/s",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 2_000
    failed_webhook_rate: Annotated[
        int,
        setting(
            "Rate and burst, per client address, of webhooks without a valid signature for each integration, and of "
            "those that name none; above it 429, before the body is read.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 30
    visitor_rate: Annotated[
        int,
        setting(
            "Rate and burst of session requests per client address, successful or not: login, refresh, logout, "
            "invitation acceptance, signing keys; above it 429, before the body is read.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 300
    refresh_rate: Annotated[
        int,
        setting(
            "Rate and burst of refreshes per session; above it 429, and the session stays valid.",
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
            "Failed access-token authentications (401) allowed per client address (IPv6: per /64), rate and burst; "
            "above it 429, also with a valid token. Tokens that were valid and have expired do not count.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="many users share an address, and invalid tokens of some block the others",
        ),
    ] = 30
    otlp_rate: Annotated[
        int,
        setting(
            "Sustained rate of export requests per project key, unless the key has its own rate; above it 429, "
            "before the body is read.",
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
            "Failed project-key authentications (401) of exports allowed per client address (IPv6: per /64), rate "
            "and burst; above it 429, except for keys that are in use.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="many senders share an address, and a wrong key of one blocks the unknown keys of the others",
        ),
    ] = 30
    failed_login_rate: Annotated[
        int,
        setting(
            "Failed logins with one e-mail address and organization from one client address (IPv6: /64), and failed "
            "codes and confirmations of one account; above it 429, also with correct credentials.",
            unit="attempts/15 min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 5
    new_address_login_rate: Annotated[
        int,
        setting(
            "Failed logins to one e-mail address, per hour, from all client addresses that the account has not logged "
            "in from within 30 days. Above it, such an address needs a proof of work or a mailed link.",
            unit="attempts/h",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 50
    failed_sso_rate: Annotated[
        int,
        setting(
            "Single sign-ons that fail, and as many begun and not finished, allowed per client address; above it 429. "
            "Those that succeed do not count.",
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
            "Refused single sign-ons of one organization that its audit log records; more are only counted.",
            unit="events/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="strangers try the addresses of an organization, and you need every attempt in its log",
        ),
    ] = 60
    account_mail_rate: Annotated[
        int,
        setting(
            "Invitations and address verifications that an organization may mail to one address, and login links to "
            "one account and for one client address; above it 429.",
            unit="mails/h",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="mails to one address get lost and are sent again more often",
        ),
    ] = 5
    organization_mail_rate: Annotated[
        int,
        setting(
            "Invitations and address verifications that an organization may mail in total; above it 429.",
            unit="mails/h",
            zero="no limit",
            ge=0,
            le=10_000_000,
            advanced="an organization invites more users at once",
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
        # chDB has no escape for it.
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
        """URL of ClickHouse; by default the embedded engine in the data directory."""
        return self.clickhouse_url or f"chdb://{quote(str(self.data_dir / 'clickhouse'))}"

    @property
    def effective_database_url(self) -> str:
        """URL of the database; by default a SQLite file in the data directory."""
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
        """Host and port of OTLP/gRPC; None when it is off."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if self.grpc_port is None else f"{host}:{self.grpc_port}"


def _require_network(text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError as error:
        raise SettingsError(f"SLUICE_TRUSTED_PROXIES: {text!r} is neither an address nor a network.") from error
