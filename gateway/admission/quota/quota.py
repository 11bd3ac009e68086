"""The two quota checks of a request: before its body is read, and once its items are known."""

from collections.abc import Awaitable, Callable
from types import TracebackType

from chassis.errors import ApiError
from chassis.http.access import PROJECT
from chassis.limits.client_request import ClientRequest
from chassis.limits.limiter import LimitResult
from chassis.limits.rate_limits import LIMIT_RESULT
from gateway.admission.quota.accounts import NANOS_PER_SECOND, Account, Accounts
from proto.errors import ErrorCode


class QuotaExceeded(ApiError):
    """429: the organization has used its items of the month; `retry_after` is the rest of it, in whole seconds."""

    def __init__(self, message: str, retry_after: int, *, close: bool = False) -> None:
        super().__init__(ErrorCode.QUOTA_EXCEEDED, message, retry_after=retry_after, close=close)


class Quota:
    """Checks requests against the quota of their organization, by the usage that its account knows."""

    def __init__(
        self, accounts: Accounts, look_up: Callable[[Account], Awaitable[None]], clock: Callable[[], int]
    ) -> None:
        """`look_up` reads the record for an account that is new in this process; it must not raise."""
        self._accounts = accounts
        self._look_up = look_up
        self._clock = clock

    async def admit(self, request: ClientRequest) -> None:
        """Raises QuotaExceeded when nothing is left; then the body is not read, and the connection is closed."""
        project = request[PROJECT]
        if not project.monthly_items:
            return
        account = self._accounts.get(project.org_id)
        account.needs_refresh = account.has_quota = True
        if not account.is_looked_up:
            await self._look_up(account)
        if account.used >= project.monthly_items:
            self._refuse(request, account, "It is used up until the next month begins.", close=True)

    def reserve(self, request: ClientRequest, items: int) -> "Reservation":
        """A reservation to hold while the request is taken; its items count if that succeeds. Raises QuotaExceeded when
        they do not fit; then no item of the request is taken.
        """
        project = request[PROJECT]
        account = self._accounts.get(project.org_id)
        account.has_quota = project.monthly_items > 0
        left = project.monthly_items - account.used
        if account.has_quota and items > left:
            self._refuse(request, account, f"{max(0, left)} items remain, fewer than the {items} of the request.")
        return Reservation(account, items, self._clock)

    def _refuse(self, request: ClientRequest, account: Account, why: str, *, close: bool = False) -> None:
        monthly_items = request[PROJECT].monthly_items
        ends = account.month.ends
        retry_after = max(1, ends - self._clock() // NANOS_PER_SECOND)
        left = max(0, monthly_items - account.used)
        request[LIMIT_RESULT] = LimitResult(monthly_items, left, ends, retry_after * NANOS_PER_SECOND)
        raise QuotaExceeded(
            f"The organization's quota is {monthly_items} items per month (UTC). {why}", retry_after, close=close
        )


class Reservation:
    """Items of one request: reserved inside the `with` block, accepted when it succeeds, released when it raises."""

    __slots__ = ("_account", "_clock", "_items")

    def __init__(self, account: Account, items: int, clock: Callable[[], int]) -> None:
        self._account = account
        self._items = items
        self._clock = clock

    def __enter__(self) -> None:
        self._account.reserved += self._items

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._account.reserved -= self._items
        if kind is None and self._items:
            self._account.accept(self._items, self._clock() / NANOS_PER_SECOND)
