"""The destination of a sink, by its config."""

from typing import Final

from msgspec import UnsetType

from control.export.config import BigQueryConfig, BlobstoreConfig, SnowflakeConfig
from control.export.destination import Destination
from control.export.loading.bigquery import BigQuery
from control.export.loading.snowflake import Snowflake
from control.export.model import Sink
from control.export.stores.opening import open_store
from control.export.stores.store import ObjectStoreError
from control.outbound.egress import Egress

_SNOWFLAKE_NEEDS_CONDITIONS: Final = (
    "config.store.conditionalPuts must be true: Snowflake loads a file again if its bytes have changed."
)


class DestinationOpener:
    """Opens destinations behind the guarded client."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    def __call__(self, sink: Sink) -> Destination:
        """The destination of a sink whose config is complete. Raises ObjectStoreError, LoadError."""
        match sink.config:
            case BlobstoreConfig() as config:
                return Destination(_prefix(config), open_store(config, self._egress, sink.org_id), None)
            case SnowflakeConfig() as config:
                if isinstance(config.store, UnsetType):
                    raise ObjectStoreError("The config is not complete.", permanent=True)
                if not config.store.conditional_puts:
                    raise ObjectStoreError(_SNOWFLAKE_NEEDS_CONDITIONS, permanent=True)
                store, prefix = open_store(config.store, self._egress, sink.org_id), _prefix(config.store)
                return Destination(prefix, store, Snowflake(config, self._egress, sink.org_id, prefix))
            case BigQueryConfig() as config:
                return Destination("", None, BigQuery(config, self._egress, sink.org_id))


def _prefix(config: BlobstoreConfig) -> str:
    """As the beginning of keys: with one slash at its end, without one at its beginning."""
    prefix = config.prefix.strip("/")
    return f"{prefix}/" if prefix else ""
