"""The way out to addresses that tenants name: guarded where a socket is made, so that nothing leads around it.

`TCPConnector(resolver=...)` alone would be no guard, for addresses written as numbers never reach a resolver. The
socket factory sees every final address: after DNS, for each of several addresses, whatever its notation. Redirects are
not followed, cookies and proxies of the environment not used, answers read up to MAX_ANSWER bytes and for a limited
time (`control.outbound.limited_connector` has what precedes and surrounds them). Failures say in general words what
happened; neither an address nor a byte of an answer is in them. A name that leads nowhere and one that leads to a
forbidden place fail alike: which inner names there are is nobody's business.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final
from weakref import WeakValueDictionary

import aiohttp
import structlog
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy

from control.outbound.egress_policy import EgressPolicy, parse_ip_literal, parse_url
from control.outbound.limited_connector import LimitedConnector

CONNECT_S: Final = 5.0  # for each address of a name
TOTAL_S: Final = 15.0  # Standard Webhooks: 15 to 30 s
BODY_S: Final = 3.0  # for the body of an answer whose head has come
MAX_BODY_BYTES: Final = 64 * 1024  # bytes
_MAX_CONNECTIONS: Final = 256
_MAX_LOOKUPS: Final = 64  # of names at once
_MAX_LOOKUPS_PER_ACCOUNT: Final = (
    4  # of them for one account: a name server that hangs holds a thread for half a minute
)
_MAX_ADDRESSES: Final = 8  # of a name, that are tried

# Whom the attempt of this task is made for; look-ups are begun by tasks of the connector's, which have a copy.
_account: ContextVar[str] = ContextVar("egress_account", default="")

log = structlog.get_logger(__name__)


class EgressError(Exception):
    """No answer was had. `permanent`: the same attempt would fail again, whatever the other end does."""

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent


class AddressBlocked(EgressError):
    """The address, which is written as a number, is one that tenants may not reach."""

    def __init__(self) -> None:
        super().__init__("The address is not allowed.", permanent=True)


class NameNotResolved(EgressError):
    """The name leads to no address, or to one that tenants may not reach. It says not which: the log does."""

    def __init__(self) -> None:
        super().__init__("The name leads to no address that is allowed.")


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer: its head, and up to MAX_ANSWER bytes of the body as they came."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Egress:
    """A client that goes only where `policy` permits. Names are absolute, as DNS has them; `local`: of the operator's
    own choice, so this machine's search domains and list of hosts count too.
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
        """What certificates of servers are checked by, also by protocols other than HTTP."""
        return _default_tls() if self._tls is None else self._tls

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Open the client; close it at the end."""
        connector = LimitedConnector(
            resolver=self._resolver,
            socket_factory=self._socket,
            ssl=self.tls,
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

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str = "") -> HttpReply:
        """Send `body`; the answer, whatever its status. `account`: who shares a bound of look-ups. Raises Unreached."""
        _account.set(account)
        if self._session is None:
            raise EgressError("The process is shutting down.")
        try:
            target = parse_url(url, allow_http=self.policy.allow_http)
        except ValueError as error:
            raise EgressError("The URL is not valid.", permanent=True) from error
        try:
            async with self._session.post(target, data=body, headers=headers, allow_redirects=False) as answer:
                return HttpReply(answer.status, answer.headers, await _read_limited_body(answer))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _to_egress_error(error) from error

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connected socket, for protocols other than HTTP. Raises Unreached."""
        try:
            async with asyncio.timeout(self._total_s):
                return await self._connect_first(await self._resolver.look_up(host, port))
        except OSError as error:
            raise _to_egress_error(error) from error

    async def _connect_first(self, found: Sequence[Any]) -> socket.socket:
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
        _require_permitted(self.policy, str(address[0]), int(address[1]))
        return socket.socket(family=family, type=kind, proto=protocol)


class _Resolver(AbstractResolver):
    """Refuses a name with any address that is not permitted: whoever answers so answers otherwise the next time.

    Look-ups have threads of their own, and each account a few of them: names that take their time hold up nobody else.
    """

    def __init__(self, policy: EgressPolicy, *, allow_local_names: bool) -> None:
        self._policy = policy
        self._allow_local_names = allow_local_names
        self._threads = ThreadPoolExecutor(_MAX_LOOKUPS, thread_name_prefix="egress-dns")
        self._account_slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

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
        """As `getaddrinfo` answers it. Raises Unresolved for names, Blocked for addresses in any notation."""
        written = parse_ip_literal(host)
        if written is not None:
            _require_permitted(self._policy, str(written), port)
        name = host if self._allow_local_names or written is not None else host.rstrip(".") + "."
        asked = partial(socket.getaddrinfo, name, port, family=family, type=socket.SOCK_STREAM)
        try:
            found = await self._run_lookup(asked)
        except (OSError, UnicodeError) as error:
            log.info("a name was not reached", reason="it does not resolve", error=str(error))
            raise NameNotResolved from error
        for each in found:
            if not self._policy.permits(str(each[4][0]), port):
                log.info("a name was not reached", reason="its address is not allowed", address=each[4][0], port=port)
                raise NameNotResolved
        return found[:_MAX_ADDRESSES]

    async def _run_lookup(self, lookup: Callable[[], list[Any]]) -> list[Any]:
        """In a thread, among the few of the account. One that nobody waits for any more counts until it ends."""
        turn = self._account_slots.setdefault(_account.get(), asyncio.Semaphore(_MAX_LOOKUPS_PER_ACCOUNT))
        await turn.acquire()
        loop = asyncio.get_running_loop()

        def ended(_: "Future[list[Any]]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended before
                loop.call_soon_threadsafe(turn.release)

        begun = self._threads.submit(lookup)
        begun.add_done_callback(ended)
        return await asyncio.wrap_future(begun)

    async def close(self) -> None:
        """Without waiting for names that take their time."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _require_permitted(policy: EgressPolicy, address: str, port: int) -> None:
    """Raises Blocked."""
    if not policy.permits(address, port):
        raise AddressBlocked


async def _read_limited_body(answer: aiohttp.ClientResponse) -> bytes:
    """The body's first bytes. The status has come and decides; a body that is late, cut off or endless does not."""
    read = bytearray()
    with contextlib.suppress(aiohttp.ClientError, OSError):  # TimeoutError among them
        async with asyncio.timeout(BODY_S):
            async for chunk in answer.content.iter_any():
                read += chunk
                if len(read) >= MAX_BODY_BYTES:
                    break
    answer.close()  # the rest stays unread
    return bytes(read[:MAX_BODY_BYTES])


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


def _to_egress_error(error: Exception) -> EgressError:
    for kinds, detail, permanent in _FAILURES:
        if isinstance(error, kinds):
            return EgressError(detail, permanent=permanent)
    return EgressError("The request could not be made.", permanent=True)


@lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """Reads the system's certificates, which takes a while: once."""
    return ssl.create_default_context()
