"""The interfaces of an object store and of a warehouse that an exporter uses."""

from dataclasses import dataclass, field
from typing import Protocol

from msgspec import UnsetType
from yarl import URL

from control.export.streams.schemas import StreamSchema
from control.outbound.egress_policy import parse_url


@dataclass(eq=False)
class DestinationError(Exception):
    """A request to the object store or the warehouse failed. The request may have succeeded if only its response was
    lost. The message is for the tenant: it tells what a person can do, and contains no address, no credential, no row,
    and of a response at most the name of a region or an error code. `permanent`: the same attempt fails again until the
    config or the other side is changed.
    """

    detail: str
    permanent: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An existing object: its size in bytes, and the digest of its rows that was stored with it (empty if it has
    none).
    """

    row_digest: str
    size: int


class ObjectStore(Protocol):
    """One bucket or container. Keys are complete: they begin with the prefix of the config."""

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        """Store an object unless the key exists. The store itself decides this by a conditional put. If the store does
        not support conditional puts, the key is looked up before and after the put. Returns None if the object was
        stored, otherwise the existing object. Raises DestinationError.
        """


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A Parquet file of one batch. `id` is the same whenever the batch is repeated, and differs from the ids of other
    batches. It has letters, digits, `-` and `_`, at most 200. `key`: the key in the object store, if the file was
    stored there.
    """

    id: str
    schema: StreamSchema
    key: str | None
    body: bytes


class Loader(Protocol):
    """One warehouse."""

    async def load(self, file: ExportedFile) -> str:
        """Create the table of the stream if it is missing, add missing columns, and load the file. Loading the same
        file again changes nothing. Returns a name of the load for people. Raises DestinationError.
        """


def endpoint_url(endpoint: str) -> URL:
    """The URL of a server. Raises DestinationError."""
    try:
        url = parse_url(endpoint, allow_http=True)  # the client decides whether http is allowed
    except ValueError:
        url = None
    if url is None or url.query_string:
        raise DestinationError("config.endpoint is not the URL of a server.", permanent=True)
    return url


def given(value: str | UnsetType) -> str:
    """A value that a complete config contains. Raises DestinationError."""
    if isinstance(value, UnsetType):
        raise DestinationError("The config is not complete.", permanent=True)
    return value
