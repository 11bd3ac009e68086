"""Ports for servers of tests."""

import random
import socket
from pathlib import Path
from typing import Final

_LOWEST: Final = 12_000
_EPHEMERAL: Final = 32_768  # where Linux begins, unless it is told otherwise
_TRIES: Final = 100
_random = random.SystemRandom()  # forked workers must not draw the same ones


def free_port() -> int:
    """A port that nothing listens on at this moment. It is none that the kernel gives to connections: one of those
    could be taken before the server binds it, or while the server is away.
    """
    highest = _first_ephemeral()
    for _ in range(_TRIES):
        port = _random.randrange(_LOWEST, highest)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError(f"no port from {_LOWEST} to {highest} is free")


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:  # not Linux
        return _EPHEMERAL
    return first if first > 2 * _LOWEST else _EPHEMERAL
