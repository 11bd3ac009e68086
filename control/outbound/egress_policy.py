"""The addresses and URLs that tenants may use, and addresses that an operator permits in addition. Pure functions."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final

from yarl import URL

MAX_URL_LENGTH: Final = 2_048
_MAX_NAME_LENGTH: Final = 253  # of a host name in DNS
_HOSTNAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# Networks without legitimate receivers that `is_global` permits in some Python versions.
_DENIED: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # shared address space; metadata of one cloud
        "168.63.129.16/32",  # metadata of another cloud
        "192.0.0.0/24",  # protocol assignments; metadata of a third cloud
        "192.88.99.0/24",  # relays of 6to4
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",  # IPv4-compatible
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b:1::/48",  # NAT64 inside one network
        "100::/64",
        "2001::/23",  # Teredo, ORCHID and other protocols
        "2002::/16",  # 6to4
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
        "ff00::/8",
    )
)


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Permitted destinations: public addresses on `ports`, and the operator's `allowed_networks` on any port."""

    allowed_networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})
    allow_http: bool = False  # whether http:// URLs are permitted too

    def may_permit(self, port: int) -> bool:
        """Whether the port is permitted for any address."""
        return port in self.ports or bool(self.allowed_networks)

    def permits(self, address: str, port: int) -> bool:
        """Whether `address`, an IP address as in a socket, is permitted on the port."""
        found = _unwrap_ipv4(ipaddress.ip_address(address.partition("%")[0]))
        if any(found in network for network in self.allowed_networks if network.version == found.version):
            return True
        return port in self.ports and is_public(found)


def is_public(address: Address) -> bool:
    """Whether the address is public on the internet: not of this host, a private network or a cloud's metadata
    service.
    """
    plain = _unwrap_ipv4(address)
    if any(plain in network for network in _DENIED if network.version == plain.version):
        return False
    return plain.is_global and not plain.is_multicast


def parse_ip_literal(host: str) -> Address | None:
    """The address of a URL's host in any notation (`127.1`, `0x7f000001`, `[::1]`), None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host)) if host.isascii() and " " not in host else None
    except OSError:
        return None


def parse_url(text: str, *, allow_http: bool) -> URL:
    """An absolute URL to post to. Raises ValueError with a sentence for the user."""
    scheme = "http:// or https://" if allow_http else "https://"
    if len(text) > MAX_URL_LENGTH or not text.isprintable() or " " in text:
        raise ValueError(f"Must be a URL of at most {MAX_URL_LENGTH} characters, without spaces.")
    try:
        url = URL(text)
        port, host = url.port, url.host  # for an internationalized name only `url.host` raises
    except ValueError as error:
        raise ValueError("Must be a URL.") from error
    if url.scheme not in (("http", "https") if allow_http else ("https",)) or not host:
        raise ValueError(f"Must be a URL that starts with {scheme} and a host.")
    if parse_ip_literal(host) is None and not _is_hostname(url.raw_host or ""):
        raise ValueError("Must have a valid host name or IP address.")
    if url.user is not None or url.password is not None:
        raise ValueError("Must not contain a user name or password.")
    if not port:
        raise ValueError("Must have a port from 1 to 65535, or no port.")
    return url.with_fragment(None)


def parse_uri(text: str, *, allow_http: bool) -> URL:
    """`parse_url` for a URL in a request: it must be a URI (RFC 3986), so that Sluice shows, compares and requests
    exactly the text that was sent. Raises ValueError with a sentence for the user.
    """
    if not text.isascii():
        raise ValueError(
            "Must consist of ASCII characters: write a host name as xn--..., and percent-encode other characters."
        )
    if _BROKEN_ESCAPE.search(text) is not None:
        raise ValueError("Must have two hexadecimal digits after each %.")
    return parse_url(text, allow_http=allow_http)


def _is_hostname(host: str) -> bool:
    """Whether the host is a valid host name: no empty label, only valid characters, at most 253 in total."""
    return len(host.removesuffix(".")) <= _MAX_NAME_LENGTH and _HOSTNAME.fullmatch(host) is not None


def _unwrap_ipv4(address: Address) -> Address:
    """The IPv4 address to which packets for an IPv4-mapped or NAT64 address are sent. Other addresses are returned
    unchanged.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
