"""The documents that providers publish, cached: metadata (OpenID Connect Discovery 1.0, section 3) and key sets.

A document is cached per issuer, for all organizations that use it, because it comes from the issuer's own address.
Failures are kept per organization, because slow names of one organization must not fail the logins of another. Each
organization waits for a fetch of its own, and has its own pause after a failure.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from joserfc.jwk import KeySet

from control.identity.sso.oidc.id_token import decode_key_set, has_key
from control.identity.sso.refusal import LoginRefused, decode_document
from control.outbound.egress import Egress, EgressError
from control.outbound.egress_policy import parse_url

WELL_KNOWN: Final = "/.well-known/openid-configuration"
DEFAULT_AUTH_METHODS: Final = ("client_secret_basic",)  # OpenID Connect Discovery 1.0, section 3
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
_MAX_AUTH_METHODS: Final = 32
_MAX_WORD_LENGTH: Final = 100  # characters of an authentication method


_Word = Annotated[str, msgspec.Meta(max_length=_MAX_WORD_LENGTH)]
_AuthMethods = Annotated[tuple[_Word, ...], msgspec.Meta(max_length=_MAX_AUTH_METHODS)]


class ProviderMetadata(msgspec.Struct, frozen=True):
    """The part of the metadata that a login needs. Other members are ignored. Every endpoint is an https URL without
    user name, password or fragment.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    authorization_response_iss_parameter_supported: bool = False  # RFC 9207, section 3
    token_endpoint_auth_methods_supported: _AuthMethods | None = DEFAULT_AUTH_METHODS


def parse_issuer(text: str) -> str:
    """An issuer identifier, unchanged: an https URL without query and fragment (OpenID Connect Core 1.0, section 2).
    Raises ValueError with a sentence for the user.
    """
    parse_url(text, allow_http=False)
    if "?" in text or "#" in text:
        raise ValueError("Must not contain a query or a fragment.")
    return text


def metadata_url(issuer: str) -> str:
    """The address of the issuer's metadata (OpenID Connect Discovery 1.0, section 4.1). Raises LoginRefused."""
    try:
        return parse_issuer(issuer).removesuffix("/") + WELL_KNOWN
    except ValueError as error:
        raise LoginRefused("issuer_invalid", f"{error} It is {issuer}") from error


def decode_metadata(body: bytes, issuer: str) -> ProviderMetadata:
    """The metadata in a response. Raises LoginRefused, also for the metadata of another issuer."""
    document = decode_document(body, ProviderMetadata, "provider_metadata_invalid")
    if document.issuer != issuer:
        raise LoginRefused("provider_issuer_mismatch", f"Expected {issuer}, got {document.issuer}")
    found = {name: getattr(document, name) for name in _ENDPOINTS}
    normal = {name: _endpoint(name, text) for name, text in found.items() if text is not None}
    methods = document.token_endpoint_auth_methods_supported
    return msgspec.structs.replace(
        document,
        **normal,
        token_endpoint_auth_methods_supported=DEFAULT_AUTH_METHODS if methods is None else methods,
    )


def _endpoint(name: str, text: str) -> str:
    """The URL in its normal form: with an ASCII host and with escaped characters. Raises LoginRefused."""
    try:
        if "#" in text:
            raise ValueError("Must not contain a fragment.")
        return str(parse_url(text, allow_http=False))
    except ValueError as error:
        raise LoginRefused("provider_metadata_invalid", f"{name}: {error}") from error


FRESH_S: Final = 600.0  # how long a document is cached
FAILURE_S: Final = 5.0  # how long a failure is cached, per organization
REFETCH_S: Final = 60.0  # minimum between two fetches for an unknown key, per organization
MAX_ISSUERS: Final = 1_000  # cached; the least recently used one is dropped

_Key = tuple[str, str]  # issuer and URL of a document
K = TypeVar("K")
V = TypeVar("V")


class Providers:
    """Metadata and keys of identity providers. `clock`: monotonic seconds."""

    def __init__(self, egress: Egress, clock: Callable[[], float] = time.monotonic) -> None:
        self._egress = egress
        self._metadata: _DocumentCache[ProviderMetadata] = _DocumentCache(clock)
        self._key_sets: _DocumentCache[KeySet] = _DocumentCache(clock)

    async def metadata(self, issuer: str, *, account: str) -> ProviderMetadata:
        """The metadata of an issuer, at most FRESH_S old. `account`: the organization. Raises LoginRefused."""
        url = metadata_url(issuer)

        async def fetch() -> ProviderMetadata:
            return decode_metadata(await self._fetch("Metadata", url, account), issuer)

        return await self._metadata.get((issuer, url), account, fetch)

    async def key_set(self, metadata: ProviderMetadata, *, account: str, unknown_kid: str | None = None) -> KeySet:
        """The keys of the provider, at most FRESH_S old. `unknown_kid` is the id of a key that was not among them: the
        keys are then fetched again, at most once in REFETCH_S, and may still lack the key. Raises LoginRefused.
        """
        key = (metadata.issuer, metadata.jwks_uri)

        async def fetch() -> KeySet:
            return decode_key_set(await self._fetch("Key set", metadata.jwks_uri, account))

        if unknown_kid is None:
            return await self._key_sets.get(key, account, fetch)
        return await self._key_sets.refetch(key, account, fetch, partial(has_key, kid=unknown_kid))

    async def _fetch(self, name: str, url: str, account: str) -> bytes:
        """The body of a response with status 200. Redirects are not followed. The media type does not matter, because
        key sets are served with many types. Raises LoginRefused.
        """
        try:
            reply = await self._egress.get(url, {"Accept": "application/json"}, account=account)
        except EgressError as error:
            raise LoginRefused("provider_unavailable", f"{name}: {error.detail}") from error
        if reply.status != 200:
            raise LoginRefused("provider_unavailable", f"{name}: HTTP {reply.status}")
        return reply.body


@dataclass(frozen=True, slots=True)
class _Cached(Generic[V]):
    value: V
    fresh_until: float


@dataclass(slots=True)
class _Fetches:
    """The fetches of one document for one organization, one at a time. Times are readings of the clock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    failure: tuple[str, str] = ("", "")  # reason and detail of the last failure
    failed_until: float = float("-inf")
    next_refetch: float = float("-inf")


class _DocumentCache(Generic[V]):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cached: OrderedDict[_Key, _Cached[V]] = OrderedDict()
        self._fetches: OrderedDict[tuple[_Key, str], _Fetches] = OrderedDict()

    async def get(self, key: _Key, account: str, fetch: Callable[[], Awaitable[V]]) -> V:
        """The cached document, or a fetched one. Concurrent callers share one fetch."""
        found = self._fresh(key)
        if found is not None:
            return found
        fetches = self._fetches_of(key, account)
        async with fetches.lock:
            found = self._fresh(key)
            return await self._fetch(key, fetches, fetch) if found is None else found

    async def refetch(
        self, key: _Key, account: str, fetch: Callable[[], Awaitable[V]], suffices: Callable[[V], bool]
    ) -> V:
        """The cached document if it suffices, or if it is too early for another fetch. Otherwise the fetched one."""
        fetches = self._fetches_of(key, account)
        async with fetches.lock:
            found = self._fresh(key)
            if found is not None and (suffices(found) or self._clock() < fetches.next_refetch):
                return found
            fetches.next_refetch = self._clock() + REFETCH_S
            return await self._fetch(key, fetches, fetch)

    async def _fetch(self, key: _Key, fetches: _Fetches, fetch: Callable[[], Awaitable[V]]) -> V:
        started = self._clock()  # the age of a response is counted from its request
        if started < fetches.failed_until:
            raise LoginRefused(*fetches.failure)
        try:
            value = await fetch()
        except LoginRefused as refused:
            fetches.failure = (refused.reason, refused.detail)
            fetches.failed_until = self._clock() + FAILURE_S
            raise
        self._cached[key] = _Cached(value, started + FRESH_S)
        _limit(self._cached, key)
        return value

    def _fresh(self, key: _Key) -> V | None:
        cached = self._cached.get(key)
        if cached is None or self._clock() >= cached.fresh_until:
            return None
        self._cached.move_to_end(key)
        return cached.value

    def _fetches_of(self, key: _Key, account: str) -> _Fetches:
        found = self._fetches.setdefault((key, account), _Fetches())
        _limit(self._fetches, (key, account))
        return found


def _limit(entries: "OrderedDict[K, Any]", used: K) -> None:
    """Mark an entry as used, and drop the least recently used entry beyond MAX_ISSUERS."""
    entries.move_to_end(used)
    while len(entries) > MAX_ISSUERS:
        entries.popitem(last=False)
