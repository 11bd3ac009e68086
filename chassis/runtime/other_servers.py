"""Servers of other protocols in the process of an application: they drain with HTTP, and share its file descriptors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web


@dataclass
class OtherServers:
    """Filled by the cleanup contexts that run such a server, when they start."""

    max_connections: int = 0  # of all of them together
    stop_accepting: list[Callable[[], None]] = field(
        default_factory=list
    )  # each called once, when HTTP stops accepting


OTHER_SERVERS: Final = web.AppKey("other_servers", OtherServers)
