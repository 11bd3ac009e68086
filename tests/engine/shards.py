"""The embedded engine with a cluster of two shards, `two`, for Distributed tables: the first is this process, and
nothing listens where the second should be.

The engine reads its configuration once in a process, so whoever wants this starts one of his own.
"""

from pathlib import Path
from typing import Final

import chdb
from chdb.state.sqlitelike import Connection

CONFIG: Final = """<clickhouse><tcp_port>19000</tcp_port><remote_servers><two>
<shard><replica><host>127.0.0.1</host><port>19000</port></replica></shard>
<shard><replica><host>127.0.0.2</host><port>1</port></replica></shard>
</two></remote_servers></clickhouse>"""


def opened(directory: Path) -> Connection:
    """The engine of `directory`; who opens the same one while this is open has the cluster, too."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = directory.with_name(f"{directory.name}.xml")
    config.write_text(CONFIG, encoding="utf-8")
    handle: Connection = chdb.connect(f"{directory}?config-file={config}")  # type: ignore[no-untyped-call]
    return handle
