"""Servers of other protocols in the process of an application: they drain with HTTP, and share its file descriptors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web


@dataclass
class OtherServers:
    """Filled by the cleanup contexts that run such a server, when they start."""

    descriptors: int = 0  # files that all of them together may open, for connections
    # Each is called once, when HTTP stops accepting.
    stop_accepting: list[Callable[[], None]] = field(default_factory=list)


OTHER_SERVERS: Final = web.AppKey("other_servers", OtherServers)
