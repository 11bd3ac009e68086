"""The limits of a process, asked at two points of a request: by address before the credential, then by principal."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web
from prometheus_client import Counter

from chassis.errors import RateLimited
from chassis.limits.gcra import Rule
from chassis.limits.limiter import Bucket, LimitClass, Limiter, Verdict
from chassis.peers import Proxies
from chassis.settings import ChassisSettings

VERDICT: Final = web.RequestKey("rate_limit", Verdict)
MINUTE: Final = 60


class Admission:
    """A class without a rule is not limited."""

    def __init__(self, rules: Mapping[LimitClass, Rule], limiter: Limiter, proxies: Proxies, refused: Counter) -> None:
        """`refused` has the label `limit`."""
        self._rules = rules
        self._limiter = limiter
        self._proxies = proxies
        self._refused = refused

    async def take(self, request: web.Request, limit: LimitClass, holder: str) -> None:
        """Count a request of `holder`; the answer, whatever it is, tells how the bucket stands. Raises RateLimited."""
        rule = self._rules.get(limit)
        if rule is None:
            return
        verdict = await self._limiter.take(Bucket(limit, holder), rule)
        request[VERDICT] = verdict
        self._hold_to(verdict, rule, limit)

    async def admit_address(self, request: web.Request) -> None:
        """RateLimited when the address of the request has failed too often."""
        await self._ask_for_address(self._limiter.look, request)

    async def charge_address(self, request: web.Request) -> None:
        """Count a failure. RateLimited when its address had used up its bucket while this credential was checked."""
        await self._ask_for_address(self._limiter.take, request)

    async def _ask_for_address(self, ask: Callable[[Bucket, Rule], Awaitable[Verdict]], request: web.Request) -> None:
        """Strangers are told of the bucket only when it refuses them."""
        limit = LimitClass.FAILED_BEARER
        rule = self._rules.get(limit)
        if rule is None:
            return
        verdict = await ask(Bucket(limit, self._proxies.subscriber(request)), rule)
        if verdict.retry_after:
            request[VERDICT] = verdict
        self._hold_to(verdict, rule, limit)

    def _hold_to(self, verdict: Verdict, rule: Rule, limit: LimitClass) -> None:
        if not verdict.retry_after:
            return
        self._refused.labels(limit).inc()
        what = "failed attempts from this address" if limit is LimitClass.FAILED_BEARER else "requests"
        raise RateLimited(
            f"Too many {what}: {rule.requests} in {rule.per_s} seconds are permitted, {rule.burst} at once.",
            verdict.retry_after,
        )


def configured_rules(settings: ChassisSettings) -> dict[LimitClass, Rule]:
    """The rules that are switched on."""
    rules = {}
    for limit, rate, burst in (
        (LimitClass.API, settings.api_rate, settings.api_burst),
        (LimitClass.ANALYSIS, settings.analysis_rate, settings.analysis_burst),
        (LimitClass.FAILED_BEARER, settings.failed_bearer_rate, settings.failed_bearer_rate),
    ):
        if rate:
            rules[limit] = Rule(rate, MINUTE, burst)
    return rules


def limit_headers(request: web.Request) -> dict[str, str]:
    """What the answer says of the bucket that decided; nothing when none did."""
    verdict = request.get(VERDICT)
    if verdict is None:
        return {}
    return {
        "x-ratelimit-limit": str(verdict.limit),
        "x-ratelimit-remaining": str(verdict.remaining),
        "x-ratelimit-reset": str(verdict.reset),
    }
