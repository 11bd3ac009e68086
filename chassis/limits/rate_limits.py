"""The rate limits of a process, applied twice per request: by address before authentication, then by holder.

`ClientRequest` is the interface of a request for authentication, limits and quotas. It is the same for all protocols:
`web.Request` over HTTP and a call over gRPC implement it. Trusted proxies report the client address of a request.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from aiohttp import web
from multidict import MultiMapping
from prometheus_client import Counter

from chassis.errors import RateLimited
from chassis.limits.limiter import Bucket, LimitClass, Limiter, LimitResult, Rule
from chassis.runtime.settings import ChassisSettings

T = TypeVar("T")


class ClientRequest(Protocol):
    """The origin of a request, its headers, and the values that steps of processing store for later steps."""

    @property
    def remote(self) -> str | None:
        """The address of the peer."""

    @property
    def headers(self) -> MultiMapping[str]:
        """The headers over HTTP, or the metadata over gRPC. Names are case-insensitive."""

    def __getitem__(self, key: web.RequestKey[T], /) -> T: ...

    def __setitem__(self, key: web.RequestKey[T], value: T, /) -> None: ...

    def __contains__(self, key: object, /) -> bool: ...

    def get(self, key: web.RequestKey[Any], /) -> Any: ...


_Address = IPv4Address | IPv6Address


class TrustedProxies:
    """The networks whose `X-Forwarded-For` is trusted. The header of any other peer is ignored."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(ip_network(text, strict=False) for text in networks)

    def client_address(self, request: ClientRequest) -> str:
        """The first address that is not a trusted proxy, starting at the peer. The peer itself if there is none."""
        current = request.remote or ""
        if not self._networks:
            return current
        for hop in reversed(_hops(request)):
            if not self._trusts(current) or _parse(hop) is None:
                break
            current = hop
        return current

    def rate_limit_key(self, request: ClientRequest) -> str:
        """The client for which limits count: an IPv4 address, or the /64 of an IPv6 address, which one subscriber
        has.
        """
        return _address_key(_parse(self.client_address(request)))

    def peer_key(self, peer: str) -> str:
        """The peer of a connection, in the form of `rate_limit_key`. Empty for a trusted proxy, which represents many
        clients.
        """
        return "" if self._trusts(peer) else _address_key(_parse(peer))

    def is_local(self, request: ClientRequest) -> bool:
        """Whether the request was made on this machine.

        A loopback peer that sends a forwarding header without being a trusted proxy is not local.
        """
        address = _parse(self.client_address(request))
        if address is None or not address.is_loopback:
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


LIMIT_RESULT: Final = web.RequestKey("rate_limit", LimitResult)
MINUTE: Final = 60
QUARTER: Final = 15 * MINUTE
HOUR: Final = 60 * MINUTE
PROOF_OF_WORK_S: Final = 10 * MINUTE  # in which a proof of work is accepted once; a proof is valid for half this time
MAX_CACHED_RULES: Final = 1_024  # rules of keys with their own rate; most keys share a few rules


_COUNTED_SUBJECTS: Final[Mapping[LimitClass, str]] = MappingProxyType(
    {
        LimitClass.FAILED_BEARER: "failed authentications from this address",
        LimitClass.FAILED_KEY: "failed authentications from this address",
        LimitClass.FAILED_WEBHOOK: "refused webhook requests from this address",
        LimitClass.FAILED_CODE: "failed codes and confirmations of this account",
        LimitClass.FAILED_LOGIN: "failed logins with this e-mail address and organization from this client address",
        LimitClass.NEW_ADDRESS: "failed logins to this e-mail address from new client addresses",
        LimitClass.LOGIN_MAIL: "login links for this account or client address",
        LimitClass.FAILED_SSO: "failed or unfinished single sign-ons from this address",
        LimitClass.VISITOR: "requests from this address",
        LimitClass.REFRESH: "refreshes of this session",
        LimitClass.ACCOUNT_MAIL: "mails of this organization to this address",
        LimitClass.ORGANIZATION_MAIL: "mails of this organization",
        LimitClass.SCIM: "requests of this directory",
    }
)
_LimiterCall = Callable[[Bucket, Rule], Awaitable[LimitResult]]


class RateLimits:
    """Applies rules to requests. A class without a rule is not limited."""

    def __init__(
        self, rules: Mapping[LimitClass, Rule], limiter: Limiter, proxies: TrustedProxies, refused: Counter
    ) -> None:
        """`refused` is the metric that counts rejected requests, with the label `limit`."""
        self._rules = rules
        self._limiter = limiter
        self._proxies = proxies
        self._refused = refused

    async def take(self, request: ClientRequest, limit: LimitClass, holder: str, rate: int | None = None) -> None:
        """Count a request of `holder`. The response headers report the state of this bucket, whether the request passes
        or not. With several buckets they report the bucket with the fewest remaining requests. Raises RateLimited.

        `rate`: requests per second of a holder with its own rate, which replaces the rate of the class. 0: no limit.
        """
        rule = self._rules.get(limit) if rate is None else _rule_for_rate(rate, self._rules.get(limit))
        if rule is None:
            return
        result = await self._limiter.take(Bucket(limit, holder), rule)
        request[LIMIT_RESULT] = _most_restrictive(request.get(LIMIT_RESULT), result)
        self._raise_if_exceeded(result, rule, limit)

    async def take_for_address(self, request: ClientRequest, limit: LimitClass) -> None:
        """The same as `take`, for the address of the request."""
        await self.take(request, limit, self._proxies.rate_limit_key(request))

    async def take_secondary(self, request: ClientRequest, limit: LimitClass, holder: str) -> None:
        """Count the request in a second bucket. The headers report this bucket only if it rejects the request. Raises
        RateLimited.
        """
        await self._apply(holder, self._limiter.take, request, limit)

    async def admits(self, limit: LimitClass, holder: str) -> bool:
        """Count an event that is not a request. False beyond the limit. No header and no metric reports the result."""
        rule = self._rules.get(limit)
        return rule is None or not (await self._limiter.take(Bucket(limit, holder), rule)).wait_ns

    def address_key(self, request: ClientRequest) -> str:
        """The id of the client's address in buckets: an IPv4 address or an IPv6 network."""
        return self._proxies.rate_limit_key(request)

    def client_address(self, request: ClientRequest) -> str:
        """The client's address itself, for logs."""
        return self._proxies.client_address(request)

    async def check_address(self, request: ClientRequest, limit: LimitClass) -> None:
        """Raise RateLimited when the address of the request has failed too often in this class. Counts nothing."""
        await self._apply_for_address(self._limiter.peek, request, limit)

    async def record_address_failure(self, request: ClientRequest, limit: LimitClass) -> None:
        """Count a failure. Raises RateLimited if other failures emptied the address's bucket while this credential was
        being checked.
        """
        await self._apply_for_address(self._limiter.take, request, limit)

    async def check_account(self, request: ClientRequest, limit: LimitClass, account: str) -> None:
        """Raise RateLimited when authentication to this account has failed too often. Counts nothing."""
        await self._apply(account, self._limiter.peek, request, limit)

    async def record_account_failure(self, request: ClientRequest, limit: LimitClass, account: str) -> None:
        """Count a failed authentication to this account. Raises RateLimited if its bucket was emptied meanwhile."""
        await self._apply(account, self._limiter.take, request, limit)

    async def record_attempt(self, request: ClientRequest, limit: LimitClass, account: str, attempt: str) -> None:
        """Count an attempt as a failed authentication to this account, unless the same attempt was recorded within the
        time in which the rule allows one more. Raises RateLimited if the account's bucket was emptied meanwhile.
        """
        rule = self._rules.get(limit)
        if rule is None:
            return
        result = await self._limiter.take(Bucket(limit, attempt), rule)
        if not result.wait_ns and result.remaining == rule.burst - 1:  # the bucket was full
            await self.record_account_failure(request, limit, account)

    async def _apply_for_address(self, apply: _LimiterCall, request: ClientRequest, limit: LimitClass) -> None:
        await self._apply(self._proxies.rate_limit_key(request), apply, request, limit)

    async def _apply(self, holder: str, apply: _LimiterCall, request: ClientRequest, limit: LimitClass) -> None:
        """Call `apply` for a bucket. The response headers report the bucket only if it rejects the request."""
        rule = self._rules.get(limit)
        if rule is None:
            return
        result = await apply(Bucket(limit, holder), rule)
        if result.wait_ns:
            request[LIMIT_RESULT] = result
        self._raise_if_exceeded(result, rule, limit)

    def _raise_if_exceeded(self, result: LimitResult, rule: Rule, limit: LimitClass) -> None:
        if not result.wait_ns:
            return
        self._refused.labels(limit).inc()
        subject = _COUNTED_SUBJECTS.get(limit, "requests")
        per = "second" if rule.per_s == 1 else f"{rule.per_s} seconds"
        raise RateLimited(
            f"Too many {subject}: the limit is {rule.requests} per {per}, burst {rule.burst}.", result.retry_after
        )


def _most_restrictive(earlier: LimitResult | None, latest: LimitResult) -> LimitResult:
    return earlier if earlier is not None and not latest.wait_ns and earlier.remaining < latest.remaining else latest


@lru_cache(MAX_CACHED_RULES)
def _rule_for_rate(rate: int, default: Rule | None) -> Rule | None:
    """A rule of `rate` requests per second. Its burst is in proportion to the burst of the class, or the requests of
    two seconds if the class has no rule.
    """
    if not rate:
        return None
    burst = 2 * rate if default is None else rate * default.burst * default.per_s // default.requests
    return Rule(rate, 1, max(1, burst))


def rules_from_settings(settings: ChassisSettings) -> dict[LimitClass, Rule]:
    """The rules of all classes whose rate is not 0."""
    rows = (
        (LimitClass.API, settings.api_rate, MINUTE, settings.api_burst),
        (LimitClass.ANALYSIS, settings.analysis_rate, MINUTE, settings.analysis_burst),
        (LimitClass.APPROVAL, settings.approval_rate, MINUTE, settings.approval_burst),
        (LimitClass.CHANNEL_TEST, settings.channel_test_rate, MINUTE, settings.channel_test_rate),
        (LimitClass.VISITOR, settings.visitor_rate, MINUTE, settings.visitor_rate),
        (LimitClass.REFRESH, settings.refresh_rate, MINUTE, settings.refresh_rate),
        (LimitClass.ACCOUNT_MAIL, settings.account_mail_rate, HOUR, settings.account_mail_rate),
        (LimitClass.ORGANIZATION_MAIL, settings.organization_mail_rate, HOUR, settings.organization_mail_rate),
        (LimitClass.OTLP, settings.otlp_rate, 1, settings.otlp_burst),
        (LimitClass.FAILED_BEARER, settings.failed_bearer_rate, MINUTE, settings.failed_bearer_rate),
        (LimitClass.FAILED_KEY, settings.failed_key_rate, MINUTE, settings.failed_key_rate),
        (LimitClass.FAILED_CODE, settings.failed_login_rate, QUARTER, settings.failed_login_rate),
        (LimitClass.FAILED_LOGIN, settings.failed_login_rate, QUARTER, settings.failed_login_rate),
        (LimitClass.NEW_ADDRESS, settings.new_address_login_rate, HOUR, settings.new_address_login_rate),
        (LimitClass.LOGIN_PROOF_OF_WORK, 1, PROOF_OF_WORK_S, 1),
        (LimitClass.LOGIN_MAIL, settings.account_mail_rate, HOUR, settings.account_mail_rate),
        (LimitClass.FAILED_SSO, settings.failed_sso_rate, MINUTE, settings.failed_sso_rate),
        (LimitClass.SCIM, settings.scim_rate, MINUTE, settings.scim_rate),
        (LimitClass.WEBHOOK, settings.webhook_rate, 1, settings.webhook_rate),
        (LimitClass.FAILED_WEBHOOK, settings.failed_webhook_rate, MINUTE, settings.failed_webhook_rate),
        (LimitClass.SSO_REFUSAL, settings.sso_refusal_rate, MINUTE, settings.sso_refusal_rate),
    )
    return {limit: Rule(rate, per_s, burst) for limit, rate, per_s, burst in rows if rate}


def limit_headers(request: ClientRequest) -> dict[str, str]:
    """The `x-ratelimit-` headers for the result that is stored on the request. Empty if there is no result."""
    result = request.get(LIMIT_RESULT)
    if result is None:
        return {}
    return {
        "x-ratelimit-limit": str(result.limit),
        "x-ratelimit-remaining": str(result.remaining),
        "x-ratelimit-reset": str(result.reset),
    }
