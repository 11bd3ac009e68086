"""The settings that all services share."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote

from chassis.runtime.settings_loader import Settings, SettingsError, setting


class ChassisSettings(Settings, frozen=True, kw_only=True):
    """The settings that all services share."""

    data: Annotated[str, setting("Directory of everything that is kept on disk; created with mode 0700.")] = "data"
    host: Annotated[str, setting("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on.", zero="any free port", ge=0, le=65_535)] = 4318
    health_port: Annotated[
        int,
        setting(
            "A second port on 127.0.0.1 of this command alone. With --workers it has /livez, /readyz and /metrics of "
            "all its workers; without, it has the same paths as the main port.",
            zero="none",
            ge=0,
            le=65_535,
        ),
    ] = 0
    public_url: Annotated[
        str,
        setting("Base URL that users see in DSNs and examples.", zero="empty: made from host and port"),
    ] = ""
    clickhouse_url: Annotated[
        str,
        setting(
            "Where telemetry is stored: chdb:///DIR (embedded) or http(s)://user:password@host:port/database.",
            secret=True,
            shown_default="chdb:// in <data>/clickhouse",
        ),
    ] = ""
    clickhouse_timeout_s: Annotated[
        float,
        setting(
            "How long a call waits for a ClickHouse server to answer; an insert is then sent again, under its token.",
            unit="seconds",
            ge=1,
            le=3_600,
        ),
    ] = 30.0
    clickhouse_memory_bytes: Annotated[
        int,
        setting(
            "Memory of the embedded ClickHouse; an insert, a merge or a read that would take it beyond that fails, and "
            "one read has a quarter of it. At least 256 MiB are used. A server has limits of its own.",
            unit="bytes",
            zero="two fifths of the machine's memory, or of its control group's",
            ge=0,
        ),
    ] = 0
    database_url: Annotated[
        str,
        setting(
            "Where organizations, projects and keys are stored: sqlite:///FILE or "
            "postgresql://user:password@host:port/name, with options of libpq (?sslmode=verify-full).",
            secret=True,
            shown_default="sqlite:// in <data>/sluice.db",
        ),
    ] = ""
    database_connections: Annotated[
        int, setting("Connections to the relational store that a process holds.", unit="connections", ge=2, le=1_000)
    ] = 5
    database_timeout_s: Annotated[
        float,
        setting(
            "How long a request waits for a transaction of the relational store, and for each answer in it; then 503.",
            unit="seconds",
            ge=0.05,
            le=600,
        ),
    ] = 5.0
    redis_url: Annotated[
        str,
        setting(
            "Where processes share rates and quotas: redis://user:password@host:port/0, or rediss:// for TLS.",
            zero="empty: each process counts rates for itself",
            secret=True,
        ),
    ] = ""
    redis_timeout_s: Annotated[
        float,
        setting(
            "How long a request waits for Redis; then each process counts for itself until it answers in time again.",
            unit="seconds",
            ge=0.001,
            le=10,
        ),
    ] = 0.05
    durability: Annotated[
        Literal["journal", "store", "memory"],
        setting(
            "What a 200 of the gateway promises; journal: the items are on disk; store: they are in ClickHouse; "
            "memory: nothing, they are lost with the process."
        ),
    ] = "journal"
    retention_days: Annotated[
        int,
        setting("Age at which spans and logs are dropped.", unit="days", zero="kept for ever", ge=0, le=36_500),
    ] = 30
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], setting("Least severe log line that is written.")
    ] = "info"
    max_connections: Annotated[
        int,
        setting(
            "Connections held at once, where there are file descriptors for them. For one more, one that waits for a "
            "request is closed; where none does, it is answered 503.",
            unit="connections",
            ge=1,
        ),
    ] = 10_000
    max_connections_per_address: Annotated[
        int,
        setting(
            "Connections of one address (of IPv6 one /64) at once, trusted proxies aside; one more is answered 503.",
            unit="connections",
            zero="no limit",
            ge=0,
        ),
    ] = 0
    max_head_bytes: Annotated[
        int,
        setting(
            "Longest request head, request line and headers together; one that is longer is answered 400. Explore's "
            "longest filters need 49 152.",
            unit="bytes",
            ge=2**13,
            le=2**20,
        ),
    ] = 2**16
    max_head_buffer_bytes: Annotated[
        int,
        setting(
            "Memory that request heads may take in a process: those that are not whole, wait behind a request under "
            "way, or are long. Beyond it connections are closed, first those that hold most. At least 16 times the "
            "longest head.",
            unit="bytes",
            ge=2**17,
        ),
    ] = 2**26
    header_timeout_s: Annotated[
        float,
        setting("A connection must have sent a whole request head by then.", unit="seconds", ge=0.05, le=3_600),
    ] = 10.0
    body_timeout_s: Annotated[
        float,
        setting(
            "A request body must have arrived by then, or go on at SLUICE_BODY_MIN_RATE; one that stalls ends then.",
            unit="seconds",
            ge=0.05,
            le=3_600,
        ),
    ] = 15.0
    body_min_rate: Annotated[
        int,
        setting(
            "Rate at which an export's body may go on for as long as it takes.",
            unit="bytes/s",
            zero="all of it within SLUICE_BODY_TIMEOUT_S",
            ge=0,
        ),
    ] = 8_192
    keepalive_timeout_s: Annotated[
        float,
        setting(
            "An idle connection is closed after this; keep it above the idle timeout of a load balancer.",
            unit="seconds",
            ge=0.05,
            le=3_600,
        ),
    ] = 75.0
    send_timeout_s: Annotated[
        float,
        setting(
            "In each such interval a client must take at least SLUICE_SEND_MIN_RATE times it, or all that is left of "
            "its answer; else its connection is closed.",
            unit="seconds",
            ge=0.05,
            le=3_600,
        ),
    ] = 60.0
    send_min_rate: Annotated[
        int,
        setting(
            "Rate at which a client must go on reading an answer, for as long as that takes.",
            unit="bytes/s",
            zero="a byte within SLUICE_SEND_TIMEOUT_S",
            ge=0,
        ),
    ] = 8_192
    drain_delay_s: Annotated[
        float,
        setting(
            "After SIGTERM, how long /readyz says no while connections are still accepted.",
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
            "Requests of one principal in one organization in the long run, aggregate and compare aside; one more is "
            "answered 429. As with all rates each process counts for itself, unless there is a Redis.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 3_000
    api_burst: Annotated[int, setting("So many of them may come at once.", unit="requests", ge=1, le=10_000_000)] = 600
    analysis_rate: Annotated[
        int,
        setting(
            "The same for explore's aggregate and compare, which are counted apart.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 600
    analysis_burst: Annotated[
        int, setting("So many of them may come at once.", unit="requests", ge=1, le=10_000_000)
    ] = 120
    approval_rate: Annotated[
        int,
        setting(
            "The same for requests that ask for an approval, which count among all requests, too.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 120
    approval_burst: Annotated[
        int, setting("So many of them may come at once.", unit="requests", ge=1, le=10_000_000)
    ] = 60
    channel_test_rate: Annotated[
        int,
        setting(
            "The same for tests of notification channels, which count among all requests, too. So many come at once.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 20
    visitor_rate: Annotated[
        int,
        setting(
            "Requests of one address for a session, good or bad, at once or spread out: to log in, go on, log out, "
            "accept an invitation, read the keys; one more is answered 429 before its body is read.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 300
    refresh_rate: Annotated[
        int,
        setting(
            "Times that one session may go on in a minute, at once or spread out; one more is answered 429 and ends "
            "nothing.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 30
    failed_bearer_rate: Annotated[
        int,
        setting(
            "Requests for want of a good access token answered 401 to one address (of IPv6 one /64), at once or spread "
            "out; after them it is answered 429, also with a good one. What was good once and has expired does not "
            "count.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 30
    otlp_rate: Annotated[
        int,
        setting(
            "Export requests with one project key in the long run, unless the key has a rate of its own; one more is "
            "answered 429 before its body is read.",
            unit="requests/s",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 5_000
    otlp_burst: Annotated[int, setting("So many of them may come at once.", unit="requests", ge=1, le=10_000_000)] = (
        10_000
    )
    failed_key_rate: Annotated[
        int,
        setting(
            "Export requests for want of a good project key answered 401 to one address, likewise; after them it is "
            "answered 429, but for keys that are in use.",
            unit="requests/min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 30
    failed_login_rate: Annotated[
        int,
        setting(
            "Failed attempts to log in to one account, by password or by second factor; after them it is answered 429, "
            "also with what is right.",
            unit="attempts/15 min",
            zero="no limit",
            ge=0,
            le=10_000_000,
        ),
    ] = 5
    trusted_proxies: Annotated[
        tuple[str, ...],
        setting(
            "Addresses or networks whose X-Forwarded-For is believed, comma-separated.",
            zero="empty: nobody's",
        ),
    ] = ()
    metrics_token: Annotated[
        str,
        setting("Bearer token that opens /metrics to other machines.", zero="empty: loopback only", secret=True),
    ] = ""

    def validate(self) -> None:
        """Reject proxies that are not networks, URLs with unsupported schemes, a head buffer of fewer than 16 heads,
        and a path at which the embedded ClickHouse would store its data elsewhere.
        """
        for network in self.trusted_proxies:
            _require_network(network)
        if self.max_head_buffer_bytes < 16 * self.max_head_bytes:
            raise SettingsError("SLUICE_MAX_HEAD_BUFFER_BYTES must be at least 16 times SLUICE_MAX_HEAD_BYTES.")
        if self.clickhouse_url and not self.clickhouse_url.startswith(("chdb://", "http://", "https://")):
            raise SettingsError("SLUICE_CLICKHOUSE_URL must start with chdb://, http:// or https://.")
        if self.uses_embedded_clickhouse and "?" in unquote(self.effective_clickhouse_url):  # chdb cannot quote it
            raise SettingsError(
                "SLUICE_DATA, or the directory of SLUICE_CLICKHOUSE_URL, must have no '?' in its absolute path: "
                "the embedded ClickHouse would cut it there and keep its data elsewhere."
            )
        if self.database_url and not self.database_url.startswith(("sqlite://", "postgresql://")):
            raise SettingsError("SLUICE_DATABASE_URL must start with sqlite:// or postgresql://.")
        if self.redis_url and not self.redis_url.startswith(("redis://", "rediss://")):
            raise SettingsError("SLUICE_REDIS_URL must start with redis:// or rediss://.")
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            raise SettingsError("SLUICE_PUBLIC_URL must start with http:// or https://.")

    @property
    def data_dir(self) -> Path:
        """The data directory, absolute."""
        return Path(self.data).absolute()

    @property
    def effective_clickhouse_url(self) -> str:
        """URL of ClickHouse; by default the embedded engine inside the data directory."""
        return self.clickhouse_url or f"chdb://{quote(str(self.data_dir / 'clickhouse'))}"

    @property
    def effective_database_url(self) -> str:
        """URL of the database; by default a SQLite file inside the data directory."""
        return self.database_url or f"sqlite:///{quote(str(self.data_dir / 'sluice.db'))}"

    @property
    def uses_embedded_clickhouse(self) -> bool:
        """Whether ClickHouse runs inside this process."""
        return self.effective_clickhouse_url.startswith("chdb:")

    @property
    def base_url(self) -> str:
        """The public base URL, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")


def _require_network(text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError as error:
        raise SettingsError(f"SLUICE_TRUSTED_PROXIES: {text!r} is no address and no network.") from error
