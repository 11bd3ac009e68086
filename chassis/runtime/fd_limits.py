"""File descriptors: as many as the system lets this process have, and how many of them connections may take.

A process without one left cannot open the next segment of its journal, nor a connection to ClickHouse. So connections
get what is left when those are accounted for, and over that are answered 503 like any that is one too many.
"""

import resource
from pathlib import Path
from typing import Final

MAX_DESCRIPTORS: Final = (
    2**20
)  # where the system has no limit worth the name; some libraries are slow with a very high one
RESERVED: Final = 256  # files, stores, and connections that are just being turned away
MIN_CONNECTIONS: Final = 16  # connections


def raise_nofile_limit() -> int:
    """Take as many descriptors as are permitted; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def connection_budget() -> int:
    """How many connections there can be beside what is open now and what is kept in reserve."""
    return max(MIN_CONNECTIONS, raise_nofile_limit() - len(list(Path("/dev/fd").iterdir())) - RESERVED)
