"""The interface of rate limiters, independent of where the buckets are stored.

The generic cell rate algorithm: a bucket is one number, `full_at`, the time at which the bucket will be full again.
`full_at` is never earlier than now, and each request adds one interval to it. A request is allowed if `full_at` is then
at most `burst` intervals ahead of now.

So at most `burst + t / interval` requests pass in any period of length t. Times are integer nanoseconds of one clock.
Source: ITU-T I.371, the virtual scheduling algorithm.

The limiter inside the process (`LocalLimiter`) is exact for one process. Its buckets are lost when the process ends.
`Allowance` limits how much of a resource each holder may use, in any unit: a burst at once, and a rate per second.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Rule:
    """`requests` per `per_s` seconds on average, and `burst` at once. All are at least 1."""

    requests: int
    per_s: int
    burst: int

    @property
    def interval_ns(self) -> int:
        """The time in which one permit is restored, in nanoseconds. It is rounded up, so that never more requests pass
        than allowed.
        """
        return -(-self.per_s * SECOND_NS // self.requests)


class BucketState(NamedTuple):
    """A bucket after a check: the `full_at` to store, the number of remaining requests, and the nanoseconds until the
    next request would pass (0: now).
    """

    full_at: int
    remaining: int
    wait_ns: int


def peek(full_at: int, now: int, rule: Rule) -> BucketState:
    """The state of the bucket. `wait_ns` is 0 if one more request would pass."""
    interval = rule.interval_ns
    full_at = max(full_at, now)
    spare = now + rule.burst * interval - full_at
    return BucketState(full_at, max(0, spare // interval), max(0, interval - spare))


def take(full_at: int, now: int, rule: Rule) -> BucketState:
    """Count one request. The request passes if `wait_ns` is 0. A rejected request is not counted."""
    state = peek(full_at, now, rule)
    if state.wait_ns:
        return state
    return BucketState(state.full_at + rule.interval_ns, state.remaining - 1, 0)


class LimitClass(StrEnum):
    """The kinds of requests that have separate limits. The value is also the label in the metrics."""

    API = "api"  # requests of a principal in an organization
    ANALYSIS = "analysis"  # reads of a whole window, such as aggregates and comparisons; not counted as API
    APPROVAL = "approval"  # requests for approval; also counted as API
    CHANNEL_TEST = "channel_test"  # requests that send to an endpoint that a tenant chose; also counted as API
    VISITOR = "visitor"  # requests of an address for a session: login, refresh, logout, invitation, keys
    REFRESH = "refresh"  # refreshes of one session
    ACCOUNT_MAIL = "account_mail"  # mails about accounts of an organization to one address
    ORGANIZATION_MAIL = "organization_mail"  # mails about accounts of an organization
    OTLP = "otlp"  # export requests with a project key
    FAILED_BEARER = "failed_bearer"  # invalid bearer credentials, by address
    FAILED_KEY = "failed_key"  # invalid project keys, by address
    FAILED_CODE = "failed_code"  # wrong second factors and confirmations, by account
    FAILED_LOGIN = "failed_login"  # wrong passwords of logins, by account and address
    NEW_ADDRESS = "new_address"  # wrong passwords for an account from addresses that it has not logged in from
    LOGIN_PROOF_OF_WORK = "login_proof_of_work"  # uses of one proof of work
    LOGIN_MAIL = "login_mail"  # mailed links that lift the limit of new addresses, by account and by address
    FAILED_SSO = "failed_sso"  # single sign-ons that failed or were not finished, by address
    SCIM = "scim"  # requests of an organization's directory
    WEBHOOK = "webhook"  # verified webhook requests to an integration, or of a platform
    FAILED_WEBHOOK = "failed_webhook"  # webhook requests without a valid signature, by address
    SSO_REFUSAL = "sso_refusal"  # refused single sign-ons of an organization that are recorded in its audit log


# Requests of these classes are also counted as API, before they are counted in their own class.
COUNTED_AS_API: Final = frozenset({LimitClass.APPROVAL, LimitClass.CHANNEL_TEST})


class UnavailablePolicy(Enum):
    """The behaviour of a class while Redis is configured but unavailable."""

    COUNT_LOCALLY = auto()  # each process counts for itself
    REJECT = auto()  # every request is rejected, because protecting accounts matters more than availability


UNAVAILABLE_POLICIES: Final[Mapping[LimitClass, UnavailablePolicy]] = MappingProxyType(
    {
        LimitClass.API: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.ANALYSIS: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.APPROVAL: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.CHANNEL_TEST: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.VISITOR: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.REFRESH: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.ACCOUNT_MAIL: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.ORGANIZATION_MAIL: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.OTLP: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_BEARER: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_KEY: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_CODE: UnavailablePolicy.REJECT,
        LimitClass.FAILED_LOGIN: UnavailablePolicy.REJECT,
        LimitClass.NEW_ADDRESS: UnavailablePolicy.REJECT,
        LimitClass.LOGIN_PROOF_OF_WORK: UnavailablePolicy.REJECT,
        LimitClass.LOGIN_MAIL: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_SSO: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.SCIM: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.WEBHOOK: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_WEBHOOK: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.SSO_REFUSAL: UnavailablePolicy.COUNT_LOCALLY,
    }
)


class Bucket(NamedTuple):
    """A limit class and the id of the holder whose requests are counted."""

    limit: LimitClass
    holder: str


class LimitResult(NamedTuple):
    """The result of a check. `reset`: epoch seconds at which the bucket is full again. `wait_ns`: nanoseconds until a
    request passes, or 0 if this request passed.
    """

    limit: int
    remaining: int
    reset: int
    wait_ns: int

    @property
    def retry_after(self) -> int:
        """`wait_ns` in whole seconds, rounded up."""
        return _ceil_seconds(self.wait_ns)


class Limiter(Protocol):
    """Counts requests in buckets. A bucket is always used with the same rule.

    Both methods raise ServiceUnavailable for a class with the policy REJECT while Redis is unavailable.
    """

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """Count one request, unless the request is rejected."""

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The result that one request would get, without counting it."""


def limit_result(state: BucketState, now: int, clock_ns: int, rule: Rule) -> LimitResult:
    """The result for clients, made of `state` at `now` of the limiter's clock. `clock_ns` is the same time in
    nanoseconds since 1970.
    """
    reset = _ceil_seconds(clock_ns + state.full_at - now)
    return LimitResult(rule.burst, state.remaining, reset, state.wait_ns)


def _ceil_seconds(nanoseconds: int) -> int:
    """Whole seconds, rounded up, so that a client passes after waiting this long."""
    return -(-nanoseconds // SECOND_NS)


MAX_BUCKETS: Final = 10_000  # of each class; a bucket takes about 250 bytes


class LocalLimiter:
    """At most `max_buckets` buckets of each class, so that a flood in one class evicts no buckets of another class.

    A full bucket contains no information and is dropped when it becomes the least recently used bucket. Beyond the
    limit the least recently used bucket is dropped in any state, and its holder starts with a full bucket.
    """

    def __init__(
        self,
        max_buckets: int = MAX_BUCKETS,
        *,
        monotonic: Callable[[], int] = time.monotonic_ns,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Both clocks return nanoseconds. `monotonic` is used for counting, and `clock` (since 1970) for times that are
        sent to clients.
        """
        self._max_buckets = max_buckets
        self._monotonic = monotonic
        self._clock = clock
        self._full_at: dict[LimitClass, OrderedDict[str, int]] = {limit: OrderedDict() for limit in LimitClass}

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """Count one request, unless the request is rejected."""
        now = self._monotonic()
        buckets = self._full_at[bucket.limit]
        state = take(buckets.get(bucket.holder, now), now, rule)
        buckets[bucket.holder] = state.full_at
        buckets.move_to_end(bucket.holder)
        self._drop_unused(buckets, now)
        return limit_result(state, now, self._clock(), rule)

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The result that one request would get, without counting the request or storing anything."""
        now = self._monotonic()
        full_at = self._full_at[bucket.limit].get(bucket.holder, now)
        return limit_result(peek(full_at, now, rule), now, self._clock(), rule)

    @property
    def bucket_count(self) -> int:
        """Number of buckets in memory."""
        return sum(map(len, self._full_at.values()))

    def _drop_unused(self, buckets: OrderedDict[str, int], now: int) -> None:
        while len(buckets) > self._max_buckets or next(iter(buckets.values())) <= now:
            buckets.popitem(last=False)


MAX_HOLDERS: Final = 10_000  # remembered; the holder whose last use is longest ago is forgotten first
K = TypeVar("K", bound=Hashable)


class Allowance(Generic[K]):
    """The amount that each holder has left: at most `burst`, with `per_s` more each second. Safe for threads."""

    def __init__(self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._left: dict[K, tuple[float, float]] = {}  # the amount that was left, and at which time
        self._lock = threading.Lock()

    def has(self, holder: K) -> bool:
        """Whether the holder has anything left. The amount of a use is often known only afterwards, so the amount left
        may become negative.
        """
        with self._lock:
            return self._left_now(holder) > 0

    def take(self, holder: K, amount: float) -> bool:
        """Use `amount`, if so much is left. Returns whether it was."""
        with self._lock:
            is_left = amount <= self._left_now(holder)
            if is_left:
                self._use(holder, amount)
            return is_left

    def use(self, holder: K, amount: float) -> None:
        """Count a use of `amount`, even if less is left."""
        with self._lock:
            self._use(holder, amount)

    def _use(self, holder: K, amount: float) -> None:
        left = self._left_now(holder) - amount
        self._left.pop(holder, None)
        self._left[holder] = left, self._clock()
        if len(self._left) > MAX_HOLDERS:
            del self._left[next(iter(self._left))]

    def _left_now(self, holder: K) -> float:
        now = self._clock()
        left, at = self._left.get(holder, (self._burst, now))
        return min(self._burst, left + (now - at) * self._per_s)
