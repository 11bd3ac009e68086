"""Sinks with their configs, streams and runs as values.

A field of a wrong type in a config is refused. If fields are missing, the sink is not configured. Configs contain
secrets, so they are stored encrypted and never shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType, field

MAX_KEY_LENGTH: Final = 8_192  # of a private key or a credentials file

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[ -~]+(?!\n)$")]
Address = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=r"^[!-~]+(?!\n)$")]
SecretText = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=r"^[!-~]+(?!\n)$")]
KeyText = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH)]
# Names of buckets, containers, regions and accounts, which become part of URLs and host names.
Label = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(?!\n)$")]
# Empty segments and the segments . and .. are not permitted, because clients and proxies remove these from a path.
Prefix = Annotated[
    str, Meta(max_length=512, pattern=r"^(?!(?:.*/)?\.{1,2}(?:/|$))(?!.*//)[A-Za-z0-9!_.*'()/-]*(?!\n)$")
]
# Names of databases, schemas, tables and stages, which become part of statements. Only plain identifiers are permitted.
Identifier = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(?!\n)$")]


class BlobProvider(StrEnum):
    """The interface of an object store."""

    S3 = "s3"  # and compatible stores
    GCS = "gcs"
    AZURE = "azure"


class _Config(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Base of all configs: `repr` and `str` show no secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    __str__ = __repr__


class BlobstoreConfig(_Config, frozen=True):
    """An object store. `access_key_id` and `secret_access_key` are an HMAC key for Google Cloud Storage. Azure has
    `account`, `container` and one of `account_key` and `sas_token` instead.
    """

    provider: BlobProvider = BlobProvider.S3
    endpoint: Address | UnsetType = UNSET  # https://HOST[:PORT] of a compatible store
    bucket: Label | UnsetType = UNSET
    prefix: Prefix = ""  # of all keys, with or without a slash at the end
    region: Label | UnsetType = UNSET
    access_key_id: SecretText | UnsetType = UNSET
    secret_access_key: SecretText | UnsetType = UNSET
    session_token: SecretText | UnsetType = UNSET
    path_style: bool = False  # whether the bucket is in the path and not in the host name
    conditional_puts: bool = True  # False if the S3-compatible store does not support them; objects are then read back
    account: Label | UnsetType = UNSET
    container: Label | UnsetType = UNSET
    account_key: SecretText | UnsetType = UNSET
    sas_token: SecretText | UnsetType = UNSET


class SnowflakeConfig(_Config, frozen=True):
    """Snowflake by its SQL API, with a key pair. `store` is the object store to which `stage` points, an external stage
    of the account.
    """

    account: Label | UnsetType = UNSET  # ORGANIZATION-ACCOUNT
    user: Name | UnsetType = UNSET
    private_key: KeyText | UnsetType = UNSET  # PEM, PKCS #8
    warehouse: Identifier | UnsetType = UNSET
    database: Identifier | UnsetType = UNSET
    schema: Identifier | UnsetType = UNSET
    stage: Identifier | UnsetType = UNSET
    store: BlobstoreConfig | UnsetType = UNSET
    role: Identifier | UnsetType = UNSET
    endpoint: Address | UnsetType = UNSET  # https://HOST, by default the host of the account


class BigQueryConfig(_Config, frozen=True):
    """BigQuery by load jobs, with a service account's key."""

    project_id: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[a-z0-9:.-]+(?!\n)$")] | UnsetType = UNSET
    dataset: Annotated[str, Meta(min_length=1, max_length=1_024, pattern=r"^\w+(?!\n)$")] | UnsetType = UNSET
    credentials_json: KeyText | UnsetType = UNSET
    location: Name | UnsetType = UNSET
    endpoint: Address = field(default="https://bigquery.googleapis.com")


SinkConfig = BlobstoreConfig | SnowflakeConfig | BigQueryConfig

_OF_BUCKETS: Final = ("bucket", "access_key_id", "secret_access_key")
_OF_SNOWFLAKE: Final = ("account", "user", "private_key", "warehouse", "database", "schema", "stage", "store")


def find_missing(config: SinkConfig) -> list[str]:
    """The fields that the config lacks, by their names in JSON. Empty if the config is complete."""
    match config:
        case BlobstoreConfig():
            return _missing_of_blobstore(config)
        case SnowflakeConfig():
            missing = _unset(config, _OF_SNOWFLAKE)
            of_store = [] if isinstance(config.store, UnsetType) else _missing_of_blobstore(config.store)
            return missing + [f"store.{name}" for name in of_store]
        case BigQueryConfig():
            return _unset(config, ("project_id", "dataset", "credentials_json"))


def _missing_of_blobstore(config: BlobstoreConfig) -> list[str]:
    match config.provider:
        case BlobProvider.S3:
            return _unset(config, (*_OF_BUCKETS, "region"))
        case BlobProvider.GCS:
            return _unset(config, _OF_BUCKETS)
        case BlobProvider.AZURE:
            has_key = not isinstance(config.account_key, UnsetType) or not isinstance(config.sas_token, UnsetType)
            return _unset(config, ("account", "container")) + ([] if has_key else ["accountKey or sasToken"])


def _unset(config: Struct, names: tuple[str, ...]) -> list[str]:
    first_and_rest = ((name, name.split("_")) for name in names)
    return [
        words[0] + "".join(word.title() for word in words[1:])
        for name, words in first_and_rest
        if isinstance(getattr(config, name), UnsetType)
    ]


class SinkKind(StrEnum):
    """Where a sink exports to."""

    BLOBSTORE = "BLOBSTORE"
    SNOWFLAKE = "SNOWFLAKE"
    BIGQUERY = "BIGQUERY"


CONFIGS: Final[Mapping[SinkKind, type[SinkConfig]]] = MappingProxyType(
    {SinkKind.BLOBSTORE: BlobstoreConfig, SinkKind.SNOWFLAKE: SnowflakeConfig, SinkKind.BIGQUERY: BigQueryConfig}
)


class Stream(StrEnum):
    """The streams to export. Each has its own schema (`control.export.streams.schemas`)."""

    ERROR_ESSENCES = "ERROR_ESSENCES"
    ISSUE_ROLLUPS = "ISSUE_ROLLUPS"
    RELEASE_HEALTH_ROLLUPS = "RELEASE_HEALTH_ROLLUPS"
    INGEST_OUTCOMES = "INGEST_OUTCOMES"


class RunStatus(StrEnum):
    """The status of a run of one stream. A run that has not ended is SUCCEEDED without an end, because the batches that
    it lists are exported.
    """

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NOT_CONFIGURED = "NOT_CONFIGURED"


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink with its config, which is never shown."""

    id: str
    org_id: str
    name: str
    kind: SinkKind
    enabled: bool
    streams: tuple[Stream, ...]
    config: SinkConfig
    created_by: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class BatchDigest:
    """The digest and the number of the rows of a batch when it was read."""

    digest: str
    rows: int


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is being exported. It is stored before the batch is sent, and is used unchanged if the batch is
    repeated. `until`: the cursor behind the batch. `attempts`: the different contents of the batch, because rows may be
    erased or issues changed between attempts. One of them is the exported one.
    """

    key: str
    until: bytes
    until_at: datetime | None
    until_id: str
    attempts: tuple[BatchDigest, ...]


@dataclass(frozen=True, slots=True)
class StreamCheckpoint:
    """How far a stream of a sink is exported. `cursor`: encoded by the stream. None: nothing is exported."""

    sink_id: str
    org_id: str
    stream: Stream
    version: int
    cursor: bytes | None
    cursor_at: datetime | None
    cursor_id: str | None
    intent: Intent | None
    rows_exported: int
    last_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class Run:
    """The result of an export of one stream."""

    id: str
    sink_id: str
    org_id: str
    stream: Stream
    status: RunStatus
    started_at: datetime
    rows: int = 0
    bytes: int = 0
    object_keys: tuple[str, ...] = ()
    error: str | None = None
    finished_at: datetime | None = None
