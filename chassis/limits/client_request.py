"""A request as authentication, limits and quotas see it, whatever protocol it came over: `web.Request` over HTTP, a
call over gRPC.
"""

from typing import Any, Protocol, TypeVar

from aiohttp import web
from multidict import MultiMapping

T = TypeVar("T")


class ClientRequest(Protocol):
    """Where a request comes from, its headers, and the values that steps store on it for later steps."""

    @property
    def remote(self) -> str | None:
        """The address of the peer."""

    @property
    def headers(self) -> MultiMapping[str]:
        """Headers over HTTP, metadata over gRPC; names are case-insensitive."""

    def __getitem__(self, key: web.RequestKey[T], /) -> T: ...

    def __setitem__(self, key: web.RequestKey[T], value: T, /) -> None: ...

    def __contains__(self, key: object, /) -> bool: ...

    def get(self, key: web.RequestKey[Any], /) -> Any: ...
