"""The way out to addresses that tenants name: guarded where a socket is made, so that nothing leads around it.

`TCPConnector(resolver=...)` alone would be no guard, for addresses written as numbers never reach a resolver. The
socket factory sees every final address: after DNS, for each of several addresses, whatever its notation. Redirects are
not followed, cookies and proxies of the environment not used, answers read up to MAX_ANSWER bytes and for a limited
time. Failures say in general words what happened; neither an address nor a byte of an answer is in them.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy
from yarl import URL

CONNECT_S: Final = 5.0  # for each address of a name
TOTAL_S: Final = 15.0  # Standard Webhooks: 15 to 30 s
BODY_S: Final = 3.0  # for the body of an answer whose head has come
MAX_ANSWER: Final = 64 * 1024  # bytes
MAX_URL_LENGTH: Final = 2_048
_MAX_CONNECTIONS: Final = 256
_LOOK_UPS: Final = 16  # of names at once
_MAX_ADDRESSES: Final = 8  # of a name, that are tried

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# What `is_global` of some Python or other lets through, and nobody has a receiver in.
_DENIED: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # shared address space; metadata of one cloud
        "168.63.129.16/32",  # metadata of another
        "192.0.0.0/24",  # protocol assignments; metadata of a third
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


class Unreached(Exception):
    """No answer was had. `permanent`: the same attempt would fail again, whatever the other end does."""

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent


class Blocked(Unreached):
    """The address is one that tenants may not reach. It says not which: names of inner networks stay inner."""

    def __init__(self) -> None:
        super().__init__("The address is not allowed.", permanent=True)


@dataclass(frozen=True, slots=True)
class Policy:
    """Where one may go: public addresses on `ports`, and the operator's `allowed` networks on any port."""

    allowed: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})
    http: bool = False  # whether URLs may be http:// too

    def permits(self, address: str, port: int) -> bool:
        """`address` is a number, as a socket has it."""
        found = _plain(ipaddress.ip_address(address.partition("%")[0]))
        if any(found in network for network in self.allowed if network.version == found.version):
            return True
        return port in self.ports and is_public(found)

    def require(self, address: str, port: int) -> None:
        """Raises Blocked."""
        if not self.permits(address, port):
            raise Blocked


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its head, and up to MAX_ANSWER bytes of the body as they came."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Egress:
    """A client that goes only where `policy` permits."""

    def __init__(self, policy: Policy, *, total_s: float = TOTAL_S, tls: ssl.SSLContext | None = None) -> None:
        self.policy = policy
        self._total_s = total_s
        self._tls = tls
        self._resolver = _Resolver(policy)
        self._session: aiohttp.ClientSession | None = None

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Open the client; close it at the end."""
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            socket_factory=self._socket,
            ssl=_default_tls() if self._tls is None else self._tls,
            limit=_MAX_CONNECTIONS,
            use_dns_cache=False,
            happy_eyeballs_delay=None,  # one after the other, so that the first blocked one ends the attempt
            force_close=True,  # what was idle may be closed under a request, which would count as a failure
        )
        timeout = aiohttp.ClientTimeout(total=self._total_s, sock_connect=CONNECT_S)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding"),
            headers={"Accept-Encoding": "identity", "User-Agent": "Sluice"},
        ) as session:
            self._session = session
            yield
            self._session = None
        await self._resolver.close()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send `body`; the answer, whatever its status. Raises Unreached."""
        if self._session is None:
            raise Unreached("The process is shutting down.")
        try:
            target = parse_url(url, http=self.policy.http)
        except ValueError as error:
            raise Unreached("The URL is not valid.", permanent=True) from error
        try:
            async with self._session.post(target, data=body, headers=headers, allow_redirects=False) as answer:
                return Reply(answer.status, answer.headers, await _capped(answer))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreached(error) from error

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connected socket, for protocols other than HTTP. Raises Unreached."""
        try:
            async with asyncio.timeout(self._total_s):
                return await self._first_connected(await self._resolver.look_up(host, port))
        except OSError as error:
            raise _unreached(error) from error

    async def _first_connected(self, found: Sequence[Any]) -> socket.socket:
        failure: OSError = OSError("no address")
        for each in found:
            made = self._socket(each)
            try:
                made.setblocking(False)
                async with asyncio.timeout(CONNECT_S):
                    await asyncio.get_running_loop().sock_connect(made, each[4])
                return made
            except OSError as error:
                made.close()
                failure = error
            except BaseException:
                made.close()
                raise
        raise failure

    def _socket(self, info: Any) -> socket.socket:
        """A socket for an address as `getaddrinfo` has it. Raises Blocked."""
        family, kind, protocol, _, address = info
        self.policy.require(str(address[0]), int(address[1]))
        return socket.socket(family=family, type=kind, proto=protocol)


class _Resolver(AbstractResolver):
    """Refuses a name with any address that is not permitted: whoever answers so answers otherwise the next time.

    Look-ups have a few threads of their own: names that take their time hold up nobody else in the process.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._threads = ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="egress-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """As the connector wants it."""
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=found, proto=protocol, flags=flags)
            for found, _, protocol, _, address in await self.look_up(host, port, family)
        ]

    async def look_up(self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[Any]:
        """As `getaddrinfo` answers it. Raises Unreached."""
        asked = partial(socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, asked)
        except (OSError, UnicodeError) as error:
            raise Unreached("The name does not resolve.") from error
        for each in found:
            self._policy.require(str(each[4][0]), port)
        return found[:_MAX_ADDRESSES]

    async def close(self) -> None:
        """Without waiting for names that take their time."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_public(address: Address) -> bool:
    """Whether the address is somebody's on the internet: not ours, not the neighbours', not the cloud's."""
    plain = _plain(address)
    if any(plain in network for network in _DENIED if network.version == plain.version):
        return False
    return plain.is_global and not plain.is_multicast


def literal(host: str) -> Address | None:
    """The address that a host of a URL is, in any notation of it (`127.1`, `0x7f000001`, `[::1]`); None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host)) if host.isascii() and " " not in host else None
    except OSError:
        return None


def parse_url(text: str, *, http: bool) -> URL:
    """An absolute URL to post to. ValueError, with a sentence for whoever wrote it."""
    scheme = "http:// or https://" if http else "https://"
    if len(text) > MAX_URL_LENGTH or not text.isprintable() or " " in text:
        raise ValueError(f"Must be a URL of at most {MAX_URL_LENGTH} characters, without spaces.")
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise ValueError("Must be a URL.") from error
    if url.scheme not in (("http", "https") if http else ("https",)) or not url.host:
        raise ValueError(f"Must be a URL that starts with {scheme} and a host.")
    if url.user is not None or url.password is not None:
        raise ValueError("Must have no user name or password in it.")
    if not port:
        raise ValueError("Must have a port from 1 to 65535, or none.")
    return url.with_fragment(None)


def _plain(address: Address) -> Address:
    """The IPv4 address inside a mapped one or one of NAT64, which is where the packets go; else the address."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


async def _capped(answer: aiohttp.ClientResponse) -> bytes:
    """The body's first bytes. The status has come and decides; a body that is late, cut off or endless does not."""
    read = bytearray()
    with contextlib.suppress(aiohttp.ClientError, OSError):  # TimeoutError among them
        async with asyncio.timeout(BODY_S):
            async for chunk in answer.content.iter_any():
                read += chunk
                if len(read) >= MAX_ANSWER:
                    break
    answer.close()  # the rest stays unread
    return bytes(read[:MAX_ANSWER])


# What was raised, in general words, and whether it would be raised again; the first that fits counts.
_FAILURES: Final[tuple[tuple[tuple[type[Exception], ...], str, bool], ...]] = (
    (
        (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError),
        "The certificate of the other end is not valid.",
        True,
    ),
    ((aiohttp.ClientSSLError, ssl.SSLError), "No TLS connection could be made.", False),
    ((TimeoutError,), "There was no answer in time.", False),
    ((aiohttp.ClientConnectorError, ConnectionRefusedError), "No connection could be made.", False),
    ((aiohttp.ClientResponseError,), "The answer was not valid HTTP.", False),
    ((aiohttp.InvalidURL,), "The URL is not valid.", True),
    ((OSError, aiohttp.ClientError), "The connection was lost.", False),
)


def _unreached(error: Exception) -> Unreached:
    for kinds, detail, permanent in _FAILURES:
        if isinstance(error, kinds):
            return Unreached(detail, permanent=permanent)
    return Unreached("The request could not be made.", permanent=True)


@lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """Reads the system's certificates, which takes a while: once."""
    return ssl.create_default_context()
