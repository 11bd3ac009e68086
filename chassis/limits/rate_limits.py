"""The limits of a process, asked at two points of a request: by address before the credential, then by whose it is."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from aiohttp import web
from prometheus_client import Counter

from chassis.errors import RateLimited
from chassis.limits.gcra import Rule
from chassis.limits.limiter import Bucket, LimitClass, Limiter, LimitResult
from chassis.limits.trusted_proxies import TrustedProxies
from chassis.runtime.settings import ChassisSettings

LIMIT_RESULT: Final = web.RequestKey("rate_limit", LimitResult)
MINUTE: Final = 60
QUARTER: Final = 15 * MINUTE
MAX_CACHED_RULES: Final = 1_024  # rates of keys' own whose rules are kept; most keys share a few

_COUNTED_SUBJECTS: Final[Mapping[LimitClass, str]] = MappingProxyType(
    {
        LimitClass.FAILED_BEARER: "failed attempts from this address",
        LimitClass.FAILED_KEY: "failed attempts from this address",
        LimitClass.FAILED_LOGIN: "failed attempts to log in to this account",
        LimitClass.VISITOR: "requests from this address",
        LimitClass.REFRESH: "refreshes of this session",
    }
)
_LimiterCall = Callable[[Bucket, Rule], Awaitable[LimitResult]]


class RateLimits:
    """A class without a rule is not limited."""

    def __init__(
        self, rules: Mapping[LimitClass, Rule], limiter: Limiter, proxies: TrustedProxies, refused: Counter
    ) -> None:
        """`refused` has the label `limit`."""
        self._rules = rules
        self._limiter = limiter
        self._proxies = proxies
        self._refused = refused

    async def take(self, request: web.Request, limit: LimitClass, holder: str, rate: int | None = None) -> None:
        """Count a request of `holder`; the answer, whatever it is, tells how the bucket stands, and where there are
        several, that which is emptiest. Raises RateLimited.

        `rate`: requests per second in the place of the class's, if its holder has one of its own; 0: no limit.
        """
        rule = self._rules.get(limit) if rate is None else _rule_for_rate(rate, self._rules.get(limit))
        if rule is None:
            return
        verdict = await self._limiter.take(Bucket(limit, holder), rule)
        request[LIMIT_RESULT] = _most_restrictive(request.get(LIMIT_RESULT), verdict)
        self._raise_if_exceeded(verdict, rule, limit)

    async def take_for_address(self, request: web.Request, limit: LimitClass) -> None:
        """Likewise, of the address of the request."""
        await self.take(request, limit, self._proxies.rate_limit_key(request))

    async def take_secondary(self, request: web.Request, limit: LimitClass, holder: str) -> None:
        """Count the request in a second bucket, of which the answer tells only when it refuses. Raises RateLimited."""
        await self._apply(holder, self._limiter.take, request, limit)

    async def check_address(self, request: web.Request, limit: LimitClass) -> None:
        """RateLimited when the address of the request has failed too often in this class."""
        await self._apply_for_address(self._limiter.peek, request, limit)

    async def record_address_failure(self, request: web.Request, limit: LimitClass) -> None:
        """Count a failure. RateLimited when its address had used up its bucket while this credential was checked."""
        await self._apply_for_address(self._limiter.take, request, limit)

    async def check_account(self, request: web.Request, limit: LimitClass, account: str) -> None:
        """RateLimited when somebody has failed too often to be this account."""
        await self._apply(account, self._limiter.peek, request, limit)

    async def record_account_failure(self, request: web.Request, limit: LimitClass, account: str) -> None:
        """Count a failure to be this account. RateLimited when there were too many meanwhile."""
        await self._apply(account, self._limiter.take, request, limit)

    async def _apply_for_address(self, ask: _LimiterCall, request: web.Request, limit: LimitClass) -> None:
        await self._apply(self._proxies.rate_limit_key(request), ask, request, limit)

    async def _apply(self, holder: str, ask: _LimiterCall, request: web.Request, limit: LimitClass) -> None:
        """The answer tells of the bucket only when it refuses."""
        rule = self._rules.get(limit)
        if rule is None:
            return
        verdict = await ask(Bucket(limit, holder), rule)
        if verdict.wait_ns:
            request[LIMIT_RESULT] = verdict
        self._raise_if_exceeded(verdict, rule, limit)

    def _raise_if_exceeded(self, verdict: LimitResult, rule: Rule, limit: LimitClass) -> None:
        if not verdict.wait_ns:
            return
        self._refused.labels(limit).inc()
        what = _COUNTED_SUBJECTS.get(limit, "requests")
        per = "a second" if rule.per_s == 1 else f"in {rule.per_s} seconds"
        raise RateLimited(
            f"Too many {what}: {rule.requests} {per} are permitted, {rule.burst} at once.", verdict.retry_after
        )


def _most_restrictive(before: LimitResult | None, now: LimitResult) -> LimitResult:
    return before if before is not None and not now.wait_ns and before.remaining < now.remaining else now


@lru_cache(MAX_CACHED_RULES)
def _rule_for_rate(rate: int, default: Rule | None) -> Rule | None:
    """A rate per second with a burst in the proportion of the class's; of two seconds where that is switched off."""
    if not rate:
        return None
    burst = 2 * rate if default is None else rate * default.burst * default.per_s // default.requests
    return Rule(rate, 1, max(1, burst))


def rules_from_settings(settings: ChassisSettings) -> dict[LimitClass, Rule]:
    """The rules that are switched on."""
    rules = {}
    for limit, rate, per_s, burst in (
        (LimitClass.API, settings.api_rate, MINUTE, settings.api_burst),
        (LimitClass.ANALYSIS, settings.analysis_rate, MINUTE, settings.analysis_burst),
        (LimitClass.APPROVAL, settings.approval_rate, MINUTE, settings.approval_burst),
        (LimitClass.CHANNEL_TEST, settings.channel_test_rate, MINUTE, settings.channel_test_rate),
        (LimitClass.VISITOR, settings.visitor_rate, MINUTE, settings.visitor_rate),
        (LimitClass.REFRESH, settings.refresh_rate, MINUTE, settings.refresh_rate),
        (LimitClass.OTLP, settings.otlp_rate, 1, settings.otlp_burst),
        (LimitClass.FAILED_BEARER, settings.failed_bearer_rate, MINUTE, settings.failed_bearer_rate),
        (LimitClass.FAILED_KEY, settings.failed_key_rate, MINUTE, settings.failed_key_rate),
        (LimitClass.FAILED_LOGIN, settings.failed_login_rate, QUARTER, settings.failed_login_rate),
    ):
        if rate:
            rules[limit] = Rule(rate, per_s, burst)
    return rules


def limit_headers(request: web.Request) -> dict[str, str]:
    """What the answer says of the bucket that decided; nothing when none did."""
    verdict = request.get(LIMIT_RESULT)
    if verdict is None:
        return {}
    return {
        "x-ratelimit-limit": str(verdict.limit),
        "x-ratelimit-remaining": str(verdict.remaining),
        "x-ratelimit-reset": str(verdict.reset),
    }
