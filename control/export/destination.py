"""Where a sink exports to: an object store, a warehouse, or both."""

from dataclasses import dataclass
from typing import Protocol

from control.export.loading.loader import ExportedFile, Loader
from control.export.model import Attempt, Intent, Sink
from control.export.stores.store import ObjectStore
from control.export.streams.schema import StreamSchema


class KeyTaken(Exception):
    """The object store has other rows under the key of the batch."""

    detail = "The object store has another object under the key of this batch; remove it, or change the prefix."


class OpenDestination(Protocol):
    """Opens the destination of a sink whose config is complete."""

    def __call__(self, sink: Sink) -> "Destination": ...


@dataclass(frozen=True, slots=True)
class Destination:
    """`store` None: the warehouse takes files itself; `loader` None: there is no warehouse. `prefix`: of all keys."""

    prefix: str
    store: ObjectStore | None
    loader: Loader | None

    async def export(self, intent: Intent, attempt: Attempt, schema: StreamSchema, body: bytes) -> tuple[Attempt, str]:
        """Export a file once, however often it is repeated. Returns the attempt whose rows are there, which may be an
        earlier one, and the key of the object, or what names the load. Raises ObjectStoreError, LoadError, KeyTaken.
        """
        key = self.prefix + intent.key
        if self.store is not None:
            existing = await self.store.put_new(key, body, attempt.digest)
            if existing is not None:
                stored = next((one for one in intent.attempts if one.digest == existing.row_digest), None)
                if stored is None:
                    raise KeyTaken
                attempt = stored
        if self.loader is None:
            return attempt, key
        file_id = "".join(character if character.isalnum() else "_" for character in intent.key)
        name = await self.loader.load(ExportedFile(file_id, schema, None if self.store is None else key, body))
        return attempt, name if self.store is None else key
