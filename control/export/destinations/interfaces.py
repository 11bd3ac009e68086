"""What an exporter needs of an object store, and of a warehouse."""

from dataclasses import dataclass, field
from typing import Protocol

from msgspec import UnsetType
from yarl import URL

from control.export.streams.schemas import StreamSchema
from control.outbound.egress_policy import parse_url


@dataclass(eq=False)
class DestinationError(Exception):
    """The object store or the warehouse did not do what was asked of it; perhaps it did, and the answer was lost. The
    message is for the tenant: what a person can act on, without an address, a credential or a row, and of a response
    at most the name of a region or the code of an error. `permanent`: the same attempt fails again until the config or
    the other side is changed.
    """

    detail: str
    permanent: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that is there: the digest of its rows that was stored with it (empty: it has none), and its bytes."""

    row_digest: str
    size: int


class ObjectStore(Protocol):
    """One bucket or container. Keys are full: they begin with the prefix of the config."""

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        """Store an object unless the key exists, which the store decides (a conditional put), or, where it cannot, a
        look before the put and one after it. None: it was stored; else the object that exists. Raises
        DestinationError.
        """


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A Parquet file of one batch. `id` is the same whenever the batch is repeated, and of no other batch: letters,
    digits, `-` and `_`, at most 200. `key`: in the object store, if it was stored there.
    """

    id: str
    schema: StreamSchema
    key: str | None
    body: bytes


class Loader(Protocol):
    """One warehouse."""

    async def load(self, file: ExportedFile) -> str:
        """Create the table of the stream if it is missing, add columns that it lacks, and load the file. Loading the
        same file again changes nothing. Returns what names the load for a person. Raises DestinationError.
        """


def endpoint_url(endpoint: str) -> URL:
    """The URL of a server. Raises DestinationError."""
    try:
        url = parse_url(endpoint, allow_http=True)  # whether http is allowed is the client's matter
    except ValueError:
        url = None
    if url is None or url.query_string:
        raise DestinationError("config.endpoint is not a URL of a server.", permanent=True)
    return url


def given(value: str | UnsetType) -> str:
    """A value that a complete config has. Raises DestinationError."""
    if isinstance(value, UnsetType):
        raise DestinationError("The config is not complete.", permanent=True)
    return value
