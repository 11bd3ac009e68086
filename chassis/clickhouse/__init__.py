"""ClickHouse by URL, one code path: embedded (`chdb:///DIR`) or a server (`http(s)://user:pw@host:port/db`).

    ClickHouse.query / insert / command
        a free handle is acquired          StoreBusy when too many calls already wait for a handle
        a pool thread makes the call       the call sends all settings that matter, because defaults of servers differ
        the engine's error is classified   as an error of `errors`, which says whether the same call may succeed later

A handle is one clickhouse-connect client. The embedded engine serializes the calls of a handle, so workloads that must
not wait for each other (ingest and explore) each use their own `ClickHouse`. When the caller of a query is cancelled,
the query is killed in the engine. Inserts are never killed: an insert runs to its end, and its deduplication token
makes a repetition harmless.

Source: `docs/codec.md` section 5 for the blocks; clickhouse.com/docs "Deduplicating inserts on retries" for the tokens.
"""

from chassis.clickhouse.client import ClickHouse, QueryLimits
from chassis.clickhouse.errors import (
    QueryTimeout,
    QueryTooLarge,
    StoreBusy,
    StoreError,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
)

__all__ = [
    "ClickHouse",
    "QueryLimits",
    "QueryTimeout",
    "QueryTooLarge",
    "StoreBusy",
    "StoreError",
    "StoreMisconfigured",
    "StoreRejected",
    "StoreUnavailable",
]
