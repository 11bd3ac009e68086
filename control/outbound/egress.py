"""Egress to addresses that tenants name, guarded where a socket is created, so that nothing bypasses it.

`TCPConnector(resolver=...)` alone would be no guard, because IP literals never reach a resolver. The socket factory
gets every final address: after DNS, for each of several addresses, in any notation. Redirects are not followed, cookies
and proxies of the environment are not used, and responses are read up to MAX_BODY_BYTES and for a limited time
(`control.outbound.limited_connector` bounds everything around the body). A delivery needs only the status, so its
response may be cut short. A document (`get`, `post_form`) is complete, or an error. Errors describe the failure in
general words, without any address or byte of a response. A name without an address and a name with a forbidden address
give the same error, so that tenants cannot discover internal names.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import aiohttp
import structlog
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy

from control.outbound.egress_policy import EgressPolicy, parse_ip_literal, parse_url
from control.outbound.limited_connector import LimitedConnector

CONNECT_S: Final = 5.0  # per address of a name
TOTAL_S: Final = 15.0  # Standard Webhooks: 15 to 30 s
BODY_S: Final = 3.0  # for the body, after the head was received
MAX_BODY_BYTES: Final = 64 * 1024  # bytes
_MAX_CONNECTIONS: Final = 256
_MAX_LOOKUPS: Final = 64  # concurrent DNS look-ups
_MAX_LOOKUPS_PER_ACCOUNT: Final = 4  # per account, because a name server that hangs occupies a thread for 30 seconds
_MAX_ADDRESSES: Final = 8  # tried per name

# The account that this task sends for. The connector's tasks, which start look-ups, have a copy of the context.
_account: ContextVar[str] = ContextVar("egress_account", default="")

log = structlog.get_logger(__name__)


class EgressError(Exception):
    """There was no response. `permanent`: the attempt would fail again even if the receiver changed nothing."""

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent


class AddressBlocked(EgressError):
    """The URL has an IP address that tenants may not reach."""

    def __init__(self) -> None:
        super().__init__("The address is not allowed.", permanent=True)


class NameNotResolved(EgressError):
    """The name has no address, or one that tenants may not reach. Only the log says which."""

    def __init__(self) -> None:
        super().__init__("The host name does not resolve to an allowed address.")


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response: its head, and up to MAX_BODY_BYTES bytes of the body as received."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Egress:
    """A client that connects only to addresses that `policy` permits. Names are absolute DNS names. `allow_local_names`
    is set if the operator chose the names: this machine's search domains and hosts file then apply too.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        total_s: float = TOTAL_S,
        tls: ssl.SSLContext | None = None,
        allow_local_names: bool = False,
    ) -> None:
        self.policy = policy
        self._total_s = total_s
        self._tls = tls
        self._resolver = _Resolver(policy, allow_local_names=allow_local_names)
        self._session: aiohttp.ClientSession | None = None

    @property
    def tls(self) -> ssl.SSLContext:
        """The TLS context that verifies certificates of servers, also for protocols other than HTTP."""
        return _default_tls() if self._tls is None else self._tls

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Open the client, and close it at the end."""
        connector = LimitedConnector(
            resolver=self._resolver,
            socket_factory=self._socket,
            ssl=self.tls,
            limit=_MAX_CONNECTIONS,
            use_dns_cache=False,
            happy_eyeballs_delay=None,  # one by one, so that the first blocked address ends the attempt
            force_close=True,  # an idle connection may be closed during a request, which would count as a failure
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

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str = "") -> HttpReply:
        """Send `body` and return the response with any status. `account` bounds concurrent look-ups. Raises
        EgressError.
        """
        return await self._request("POST", url, body, headers, account, _read_limited_body)

    async def patch(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str = "") -> HttpReply:
        """Send `body` with PATCH, otherwise like `post`."""
        return await self._request("PATCH", url, body, headers, account, _read_limited_body)

    async def put(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str = "") -> HttpReply:
        """Send `body` with PUT, otherwise like `post`."""
        return await self._request("PUT", url, body, headers, account, _read_limited_body)

    async def head(self, url: str, headers: Mapping[str, str], *, account: str = "") -> HttpReply:
        """The head of a resource. Raises the errors of `get`."""
        return await self._request("HEAD", url, None, headers, account, _read_limited_body)

    async def get(self, url: str, headers: Mapping[str, str], *, account: str = "") -> HttpReply:
        """Fetch a document and return the response, with any status and with its whole body. Raises EgressError, also
        for a body that is incomplete, late or longer than MAX_BODY_BYTES.
        """
        return await self._request("GET", url, None, headers, account, _read_whole_body)

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, account: str = ""
    ) -> HttpReply:
        """Post a form (application/x-www-form-urlencoded). The response and the errors are as with `get`."""
        body = urlencode(form, errors="replace").encode("ascii")  # a lone surrogate becomes a question mark
        headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        return await self._request("POST", url, body, headers, account, _read_whole_body)

    async def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        account: str,
        read_body: Callable[[aiohttp.ClientResponse], Awaitable[bytes]],
    ) -> HttpReply:
        _account.set(account)
        if self._session is None:
            raise EgressError("The process is shutting down.")
        try:
            target = parse_url(url, allow_http=self.policy.allow_http)
        except ValueError as error:
            is_http = url.startswith("http://") and not self.policy.allow_http
            detail = "The URL must begin with https://." if is_http else "The URL is not valid."
            raise EgressError(detail, permanent=True) from error
        try:
            async with self._session.request(
                method, target, data=body, headers=headers, allow_redirects=False
            ) as response:
                return HttpReply(response.status, response.headers, await read_body(response))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _to_egress_error(error) from error

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connected socket, for protocols other than HTTP. Raises EgressError."""
        try:
            async with asyncio.timeout(self._total_s):
                return await self._connect_first(await self._resolver.look_up(host, port))
        except OSError as error:
            raise _to_egress_error(error) from error

    async def _connect_first(self, addresses: Sequence[Any]) -> socket.socket:
        failure: OSError = OSError("no address")
        for each in addresses:
            candidate = self._socket(each)
            try:
                candidate.setblocking(False)
                async with asyncio.timeout(CONNECT_S):
                    await asyncio.get_running_loop().sock_connect(candidate, each[4])
                return candidate
            except OSError as error:
                candidate.close()
                failure = error
            except BaseException:
                candidate.close()
                raise
        raise failure

    def _socket(self, info: Any) -> socket.socket:
        """A socket for an address as returned by `getaddrinfo`. Raises AddressBlocked."""
        family, kind, protocol, _, address = info
        _require_permitted(self.policy, str(address[0]), int(address[1]))
        return socket.socket(family=family, type=kind, proto=protocol)


class _Resolver(AbstractResolver):
    """Refuses a name if one of its addresses is not permitted, because the next look-up of such a name may return only
    the forbidden address.

    Look-ups have their own threads, and each account may use a few of them, so slow names delay no other account.
    """

    def __init__(self, policy: EgressPolicy, *, allow_local_names: bool) -> None:
        self._policy = policy
        self._allow_local_names = allow_local_names
        self._threads = ThreadPoolExecutor(_MAX_LOOKUPS, thread_name_prefix="egress-dns")
        self._account_slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses in the form that the connector expects."""
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=found, proto=protocol, flags=flags)
            for found, _, protocol, _, address in await self.look_up(host, port, family)
        ]

    async def look_up(self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[Any]:
        """Addresses as `getaddrinfo` returns them. Raises NameNotResolved for names, AddressBlocked for IP literals in
        any notation.
        """
        literal = parse_ip_literal(host)
        if literal is not None:
            _require_permitted(self._policy, str(literal), port)
        name = host if self._allow_local_names or literal is not None else host.rstrip(".") + "."
        lookup = partial(socket.getaddrinfo, name, port, family=family, type=socket.SOCK_STREAM)
        try:
            found = await self._run_lookup(lookup)
        except (OSError, UnicodeError) as error:
            log.info("host name refused", reason="does not resolve", error=str(error))
            raise NameNotResolved from error
        for each in found:
            if not self._policy.permits(str(each[4][0]), port):
                log.info("host name refused", reason="address not allowed", address=each[4][0], port=port)
                raise NameNotResolved
        return found[:_MAX_ADDRESSES]

    async def _run_lookup(self, lookup: Callable[[], list[Any]]) -> list[Any]:
        """Run a look-up in a thread, within the slots of the account. A look-up whose caller has stopped waiting keeps
        its slot until the look-up ends.
        """
        slots = self._account_slots.setdefault(_account.get(), asyncio.Semaphore(_MAX_LOOKUPS_PER_ACCOUNT))
        await slots.acquire()
        loop = asyncio.get_running_loop()

        def release_slot(_: "Future[list[Any]]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                loop.call_soon_threadsafe(slots.release)

        future = self._threads.submit(lookup)
        future.add_done_callback(release_slot)
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Close without waiting for running look-ups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _require_permitted(policy: EgressPolicy, address: str, port: int) -> None:
    """Raises AddressBlocked for an address and port that the policy forbids."""
    if not policy.permits(address, port):
        raise AddressBlocked


async def _read_limited_body(response: aiohttp.ClientResponse) -> bytes:
    """The first bytes of the body. The status alone decides about success, so a late, truncated or endless body is not
    an error.
    """
    body = bytearray()
    with contextlib.suppress(aiohttp.ClientError, OSError):  # OSError includes TimeoutError
        async with asyncio.timeout(BODY_S):
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) >= MAX_BODY_BYTES:
                    break
    response.close()  # the rest stays unread
    return bytes(body[:MAX_BODY_BYTES])


async def _read_whole_body(response: aiohttp.ClientResponse) -> bytes:
    """The body to its end. Raises EgressError if it is longer than MAX_BODY_BYTES, TimeoutError if it takes longer than
    BODY_S, ClientError if it is incomplete.
    """
    body = bytearray()
    async with asyncio.timeout(BODY_S):
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                response.close()  # the rest stays unread
                raise EgressError("The response is too large.")
    return bytes(body)


# Errors in general words, and whether they are permanent. The first match decides.
_FAILURES: Final[tuple[tuple[tuple[type[Exception], ...], str, bool], ...]] = (
    (
        (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError),
        "The certificate of the server is not valid.",
        True,
    ),
    ((aiohttp.ClientSSLError, ssl.SSLError), "The TLS connection failed.", False),
    ((TimeoutError,), "The server did not respond in time.", False),
    ((aiohttp.ClientConnectorError, ConnectionRefusedError), "The connection failed.", False),
    ((aiohttp.ClientResponseError,), "The response was not valid HTTP.", False),
    ((aiohttp.InvalidURL,), "The URL is not valid.", True),
    ((OSError, aiohttp.ClientError), "The connection was lost.", False),
)


def _to_egress_error(error: Exception) -> EgressError:
    for kinds, detail, permanent in _FAILURES:
        if isinstance(error, kinds):
            return EgressError(detail, permanent=permanent)
    return EgressError("The request failed.", permanent=True)


@lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """The TLS context, cached because reading the system's certificates is slow."""
    return ssl.create_default_context()
