"""The destination of a sink, by its config: an object store, a warehouse, or both."""

from dataclasses import dataclass
from typing import Final

from msgspec import UnsetType
from yarl import URL

from control.export.destinations.bigquery import BigQuery
from control.export.destinations.interfaces import (
    DestinationError,
    ExportedFile,
    Loader,
    ObjectStore,
    endpoint_url,
    given,
)
from control.export.destinations.object_stores import GOOGLE, AzureStore, Credentials, Place, S3Store
from control.export.destinations.snowflake import Snowflake
from control.export.model import (
    BatchDigest,
    BigQueryConfig,
    BlobProvider,
    BlobstoreConfig,
    Intent,
    Sink,
    SnowflakeConfig,
)
from control.export.streams.schemas import StreamSchema
from control.outbound.egress import Egress

_KEY_TAKEN: Final = (
    "The object store has another object under the key of this batch. Remove the object, or change the prefix."
)
_GOOGLE: Final = "https://storage.googleapis.com"
_SNOWFLAKE_NEEDS_CONDITIONS: Final = (
    "config.store.conditionalPuts must be true. Without conditional puts, a file may be replaced by a file with other "
    "bytes, and Snowflake would load both."
)


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination. `store`: None if the warehouse receives files directly. `loader`: None if there is no warehouse.
    `prefix`: of all keys.
    """

    prefix: str
    store: ObjectStore | None
    loader: Loader | None

    async def export(
        self, intent: Intent, batch_digest: BatchDigest, schema: StreamSchema, body: bytes
    ) -> tuple[BatchDigest, str]:
        """Export a file once, however often the call is repeated. Returns the digest of the exported rows, which may
        be from an earlier attempt, and the key of the object or the name of the load. Raises DestinationError.
        """
        key = self.prefix + intent.key
        if self.store is not None:
            existing = await self.store.put_new(key, body, batch_digest.digest)
            if existing is not None:
                stored = next((one for one in intent.attempts if one.digest == existing.row_digest), None)
                if stored is None:
                    raise DestinationError(_KEY_TAKEN, permanent=True)
                batch_digest = stored
        if self.loader is None:
            return batch_digest, key
        file_id = "".join(character if character.isalnum() else "_" for character in intent.key)
        name = await self.loader.load(ExportedFile(file_id, schema, None if self.store is None else key, body))
        return batch_digest, name if self.store is None else key


def open_store(config: BlobstoreConfig, egress: Egress, account: str) -> ObjectStore:
    """The store of a complete config. `account`: the sender, for the limits of the client. Raises DestinationError."""
    if not config.conditional_puts and config.provider is not BlobProvider.S3:
        raise DestinationError("config.conditionalPuts may be false only for S3-compatible stores.", permanent=True)
    if config.provider is BlobProvider.AZURE:
        name, container = given(config.account), given(config.container)
        base = _endpoint(config.endpoint, f"https://{name}.blob.core.windows.net")
        key, token = _optional(config.account_key), _optional(config.sas_token)
        return AzureStore(
            egress, f"{str(base).rstrip('/')}/{container}", name, account, account_key=key, sas_token=token
        )
    credentials = Credentials(
        given(config.access_key_id), given(config.secret_access_key), _optional(config.session_token)
    )
    bucket = given(config.bucket)
    if config.provider is BlobProvider.GCS:
        place = _place(_endpoint(config.endpoint, _GOOGLE), bucket, path_style=True)
        return S3Store(egress, place, credentials, _optional(config.region) or "auto", account, scheme=GOOGLE)
    region = given(config.region)
    endpoint = _endpoint(config.endpoint, f"https://s3.{region}.amazonaws.com")
    place = _place(endpoint, bucket, path_style=config.path_style)
    return S3Store(egress, place, credentials, region, account, conditional=config.conditional_puts)


def _place(endpoint: URL, bucket: str, *, path_style: bool) -> Place:
    host = endpoint.host_subcomponent or ""  # an IPv6 address in brackets
    name = host if path_style else f"{bucket}.{host}"
    authority = name if endpoint.is_default_port() else f"{name}:{endpoint.port}"
    path = endpoint.raw_path.rstrip("/") + (f"/{bucket}" if path_style else "")
    return Place(f"{endpoint.scheme}://{authority}", authority, path)


def _endpoint(endpoint: str | UnsetType, default: str) -> URL:
    return URL(default) if isinstance(endpoint, UnsetType) else endpoint_url(endpoint)


def _optional(value: str | UnsetType) -> str | None:
    return None if isinstance(value, UnsetType) else value


def open_destination(egress: Egress, sink: Sink) -> Destination:
    """The destination of a sink whose config is complete, behind the guarded client. Raises DestinationError."""
    match sink.config:
        case BlobstoreConfig() as config:
            return Destination(_prefix(config), open_store(config, egress, sink.org_id), None)
        case SnowflakeConfig() as config:
            if isinstance(config.store, UnsetType):
                raise DestinationError("The config is not complete.", permanent=True)
            if not config.store.conditional_puts:
                raise DestinationError(_SNOWFLAKE_NEEDS_CONDITIONS, permanent=True)
            store, prefix = open_store(config.store, egress, sink.org_id), _prefix(config.store)
            return Destination(prefix, store, Snowflake(config, egress, sink.org_id, prefix))
        case BigQueryConfig() as config:
            return Destination("", None, BigQuery(config, egress, sink.org_id))


def _prefix(config: BlobstoreConfig) -> str:
    """The prefix as the beginning of keys: with one slash at the end, and none at the beginning."""
    prefix = config.prefix.strip("/")
    return f"{prefix}/" if prefix else ""
