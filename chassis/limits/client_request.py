"""A request as authentication, limits and quotas see it, whatever protocol it came over: `web.Request` over HTTP, a
call over gRPC.

The client address of a request, as reported by trusted proxies.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
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


_Address = IPv4Address | IPv6Address


class TrustedProxies:
    """The networks whose `X-Forwarded-For` is trusted; from any other peer it is ignored."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(ip_network(text, strict=False) for text in networks)

    def client_address(self, request: ClientRequest) -> str:
        """The first address that is not a trusted proxy, starting at the peer; by default the peer itself."""
        current = request.remote or ""
        if not self._networks:
            return current
        for hop in reversed(_hops(request)):
            if not self._trusts(current):
                break
            if _parse(hop) is None:
                break
            current = hop
        return current

    def rate_limit_key(self, request: ClientRequest) -> str:
        """The client as limits count it: an IPv4 address, or the /64 of an IPv6 one, which one subscriber owns."""
        return _address_key(_parse(self.client_address(request)))

    def peer_key(self, peer: str) -> str:
        """The peer of a connection, counted likewise; empty for a trusted proxy, which stands for many clients."""
        return "" if self._trusts(peer) else _address_key(_parse(peer))

    def is_local(self, request: ClientRequest) -> bool:
        """Whether the request was made on this machine.

        A loopback peer that sends a forwarding header without being a trusted proxy is not local.
        """
        address = _parse(self.client_address(request))
        if address is None or not _is_loopback(address):
            return False
        forwards = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
        return not forwards or self._trusts(request.remote or "")

    def _trusts(self, text: str) -> bool:
        address = _parse(text)
        return address is not None and any(address in network for network in self._networks)


def _address_key(address: _Address | None) -> str:
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), 64), strict=False))
    return "" if address is None else str(address)


def _hops(request: ClientRequest) -> list[str]:
    return [hop.strip() for line in request.headers.getall("X-Forwarded-For", []) for hop in line.split(",")]


def _parse(text: str) -> _Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if mapped is not None else address


def _is_loopback(address: _Address) -> bool:
    return address.is_loopback
