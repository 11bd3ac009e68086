"""File descriptors: raise the limit of the process, and compute how many connections the process may hold.

A process without a free descriptor cannot open the next segment of its journal or a connection to ClickHouse. So
clients' connections get the descriptors that these leave. Further connections get 503, as at every connection limit.
"""

import resource
from pathlib import Path
from typing import Final

MAX_DESCRIPTORS: Final = 2**20  # the limit if the system has none; some libraries are slow with a very high limit
RESERVED: Final = 256  # for files, stores, and connections that are being rejected
MIN_CONNECTIONS: Final = 16  # lower bound of `connection_budget`


def raise_nofile_limit() -> int:
    """Raise the soft limit on descriptors to the hard limit, at most MAX_DESCRIPTORS. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def connection_budget() -> int:
    """The number of connections that the limit allows in addition to the open descriptors and the reserve."""
    return max(MIN_CONNECTIONS, raise_nofile_limit() - len(list(Path("/dev/fd").iterdir())) - RESERVED)
