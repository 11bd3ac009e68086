"""What an exporter needs of an object store, and of a warehouse."""

from dataclasses import dataclass
from typing import Protocol

from control.export.streams.schemas import StreamSchema
from control.outbound.egress_policy import parse_url


class ObjectStoreError(Exception):
    """The store did not do what was asked of it; perhaps it did, and the answer was lost. The message is for the
    tenant: general words, without an address or a credential, and of a response at most the name of a region or the
    code of an error. `permanent`: the same attempt fails again until the config or the store is changed.
    """

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent


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
        ObjectStoreError.
        """


class LoadError(Exception):
    """The warehouse did not load the rows; perhaps it did, and the answer was lost. The message is for the tenant: what
    a person can act on, without an address, a credential, a row, or more of a response than a code. `permanent`: the
    same attempt fails again until the config or the warehouse is changed.
    """

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent


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
        same file again changes nothing. Returns what names the load for a person. Raises LoadError.
        """


def server_url(endpoint: str) -> str:
    """The URL of an API as other URLs begin, without a slash at its end. Raises LoadError."""
    try:
        url = parse_url(endpoint, allow_http=True)  # whether http is allowed is the client's matter
    except ValueError:
        url = None
    if url is None or url.query_string:
        raise LoadError("config.endpoint is not a URL of a server.", permanent=True)
    return str(url).rstrip("/")
