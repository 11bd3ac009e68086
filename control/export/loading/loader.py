"""What an exporter needs of a warehouse."""

from dataclasses import dataclass
from typing import Protocol

from control.export.streams.schema import StreamSchema
from control.outbound.egress_policy import parse_url


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
