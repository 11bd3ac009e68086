"""The way out to addresses that tenants name: guarded where a socket is made, so that nothing leads around it.

`TCPConnector(resolver=...)` alone would be no guard, for addresses written as numbers never reach a resolver. The
socket factory sees every final address: after DNS, for each of several addresses, whatever its notation. Redirects are
not followed, cookies and proxies of the environment not used, answers read up to MAX_ANSWER bytes and for a limited
time (`chassis.bounded` has what precedes and surrounds them). Failures say in general words what happened; neither an
address nor a byte of an answer is in them. A name that leads nowhere and one that leads to a forbidden place fail
alike: which inner names there are is nobody's business.
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

from chassis.bounded import BoundedConnector
from chassis.destinations import Policy, literal, parse_url

CONNECT_S: Final = 5.0  # for each address of a name
TOTAL_S: Final = 15.0  # Standard Webhooks: 15 to 30 s
BODY_S: Final = 3.0  # for the body of an answer whose head has come
MAX_ANSWER: Final = 64 * 1024  # bytes
_MAX_CONNECTIONS: Final = 256
_LOOK_UPS: Final = 64  # of names at once
_LOOK_UPS_EACH: Final = 4  # of them for one account: a name server that hangs holds a thread for half a minute
_MAX_ADDRESSES: Final = 8  # of a name, that are tried

# Whom the attempt of this task is made for; look-ups are begun by tasks of the connector's, which have a copy.
_account: ContextVar[str] = ContextVar("egress_account", default="")

log = structlog.get_logger(__name__)


class Unreached(Exception):
    """No answer was had. `permanent`: the same attempt would fail again, whatever the other end does."""

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent


class Blocked(Unreached):
    """The address, which is written as a number, is one that tenants may not reach."""

    def __init__(self) -> None:
        super().__init__("The address is not allowed.", permanent=True)


class Unresolved(Unreached):
    """The name leads to no address, or to one that tenants may not reach. It says not which: the log does."""

    def __init__(self) -> None:
        super().__init__("The name leads to no address that is allowed.")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its head, and up to MAX_ANSWER bytes of the body as they came."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Egress:
    """A client that goes only where `policy` permits. Names are absolute, as DNS has them; `local`: of the operator's
    own choice, so this machine's search domains and list of hosts count too.
    """

    def __init__(
        self, policy: Policy, *, total_s: float = TOTAL_S, tls: ssl.SSLContext | None = None, local: bool = False
    ) -> None:
        self.policy = policy
        self._total_s = total_s
        self._tls = tls
        self._resolver = _Resolver(policy, local=local)
        self._session: aiohttp.ClientSession | None = None

    @property
    def tls(self) -> ssl.SSLContext:
        """What certificates of servers are checked by, also by protocols other than HTTP."""
        return _default_tls() if self._tls is None else self._tls

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Open the client; close it at the end."""
        connector = BoundedConnector(
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

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str = "") -> Reply:
        """Send `body`; the answer, whatever its status. `account`: who shares a bound of look-ups. Raises Unreached."""
        _account.set(account)
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
        _require(self.policy, str(address[0]), int(address[1]))
        return socket.socket(family=family, type=kind, proto=protocol)


class _Resolver(AbstractResolver):
    """Refuses a name with any address that is not permitted: whoever answers so answers otherwise the next time.

    Look-ups have threads of their own, and each account a few of them: names that take their time hold up nobody else.
    """

    def __init__(self, policy: Policy, *, local: bool) -> None:
        self._policy = policy
        self._local = local
        self._threads = ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="egress-dns")
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

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
        written = literal(host)
        if written is not None:
            _require(self._policy, str(written), port)
        name = host if self._local or written is not None else host.rstrip(".") + "."
        asked = partial(socket.getaddrinfo, name, port, family=family, type=socket.SOCK_STREAM)
        try:
            found = await self._in_turn(asked)
        except (OSError, UnicodeError) as error:
            log.info("a name was not reached", reason="it does not resolve", error=str(error))
            raise Unresolved from error
        for each in found:
            if not self._policy.permits(str(each[4][0]), port):
                log.info("a name was not reached", reason="its address is not allowed", address=each[4][0], port=port)
                raise Unresolved
        return found[:_MAX_ADDRESSES]

    async def _in_turn(self, asked: Callable[[], list[Any]]) -> list[Any]:
        """In a thread, among the few of the account. One that nobody waits for any more counts until it ends."""
        turn = self._turns.setdefault(_account.get(), asyncio.Semaphore(_LOOK_UPS_EACH))
        await turn.acquire()
        loop = asyncio.get_running_loop()

        def ended(_: "Future[list[Any]]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended before
                loop.call_soon_threadsafe(turn.release)

        begun = self._threads.submit(asked)
        begun.add_done_callback(ended)
        return await asyncio.wrap_future(begun)

    async def close(self) -> None:
        """Without waiting for names that take their time."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _require(policy: Policy, address: str, port: int) -> None:
    """Raises Blocked."""
    if not policy.permits(address, port):
        raise Blocked


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
