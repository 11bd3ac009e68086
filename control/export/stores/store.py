"""What an exporter needs of an object store."""

from dataclasses import dataclass
from typing import Protocol


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
