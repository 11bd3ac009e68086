"""What an implementation of the limits promises, wherever it keeps its buckets."""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from chassis.limits.gcra import SECOND_NS, BucketState, Rule


class LimitClass(StrEnum):
    """What is counted together; also the label in the metrics."""

    API = "api"  # requests of a principal in an organization
    ANALYSIS = "analysis"  # those of them that read a whole window: aggregate, compare
    APPROVAL = "approval"  # those that ask people for something; they count as API, too
    CHANNEL_TEST = "channel_test"  # and those that send something to a place that a tenant names, likewise
    VISITOR = "visitor"  # requests of an address for a session: login, refresh, logout, invitation, keys
    REFRESH = "refresh"  # of one session
    OTLP = "otlp"  # export requests with a project key
    FAILED_BEARER = "failed_bearer"  # credentials that were none, by address
    FAILED_KEY = "failed_key"  # project keys that were none, by address
    FAILED_LOGIN = "failed_login"  # passwords and second factors that were none, by account


COUNTED_AS_API: Final = frozenset({LimitClass.APPROVAL, LimitClass.CHANNEL_TEST})  # what is counted as API before


class UnavailablePolicy(Enum):
    """What holds for a class while the shared store of buckets, being configured, is away."""

    COUNT_LOCALLY = auto()  # each process counts for itself
    REJECT = auto()  # nobody passes: what it guards is worth more than being there


UNAVAILABLE_POLICIES: Final[Mapping[LimitClass, UnavailablePolicy]] = MappingProxyType(
    {
        LimitClass.API: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.ANALYSIS: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.APPROVAL: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.CHANNEL_TEST: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.VISITOR: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.REFRESH: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.OTLP: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_BEARER: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_KEY: UnavailablePolicy.COUNT_LOCALLY,
        LimitClass.FAILED_LOGIN: UnavailablePolicy.REJECT,
    }
)


class Bucket(NamedTuple):
    """Whose requests of which class."""

    limit: LimitClass
    holder: str


class LimitResult(NamedTuple):
    """`reset`: epoch seconds when the bucket is full again. `wait_ns`: until a request passes, 0 when this one did."""

    limit: int
    remaining: int
    reset: int
    wait_ns: int

    @property
    def retry_after(self) -> int:
        """The same in whole seconds."""
        return _ceil_seconds(self.wait_ns)


class Limiter(Protocol):
    """Buckets under rules. A bucket is always asked for with the same rule.

    Both raise ServiceUnavailable for a class that refuses while the shared buckets are away.
    """

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """One request: counted, or refused and then not counted."""

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The verdict that one request would get, without counting it."""


def limit_result(level: BucketState, now: int, clock_ns: int, rule: Rule) -> LimitResult:
    """What is told of a `level` at `now` of its own clock, when it is `clock_ns` for clients."""
    reset = _ceil_seconds(clock_ns + level.full_at - now)
    return LimitResult(rule.burst, level.remaining, reset, level.wait_ns)


def _ceil_seconds(nanoseconds: int) -> int:
    """Rounded up: what is said to hold then, holds then."""
    return -(-nanoseconds // SECOND_NS)
