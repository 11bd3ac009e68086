"""Access rules of routes, and the checks that hold them before a handler runs.

A rule is data (`public()`, `visitor()`, `bearer(scope)`, `session()`, `project_key()`); the guards are handed in.
`guarded` joins the two, so a handler never runs unchecked and a route cannot be declared without its rule.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol, Self

from aiohttp import web
from multidict import MultiDict, MultiDictProxy
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import reload_authorization, reload_session_credential
from chassis.auth.guards import AuthGuards
from chassis.auth.model import AuthenticatedCredential, AuthorizationContext, ProjectIdentity
from chassis.errors import ApiError, CredentialExpired, Forbidden, MfaRequired, Unauthorized
from chassis.limits.limiter import COUNTED_AS_API, LimitClass
from chassis.limits.rate_limits import RateLimits

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ExistenceCheck = Callable[[web.Request, AuthenticatedCredential], Awaitable[None]]

AUTHORIZATION_CONTEXT: Final = web.RequestKey("reach", AuthorizationContext)
REQUIRED_SCOPES: Final = web.RequestKey("scopes", frozenset[str])  # one of which the route takes
AUTHENTICATED_CREDENTIAL: Final = web.RequestKey("grant", AuthenticatedCredential)
ALLOWS_PENDING_MFA: Final = web.RequestKey(
    "owing", bool
)  # whether the route takes a session whose second factor is owed
PROJECT: Final = web.RequestKey("project", ProjectIdentity)

_NO_QUERY: Final = MultiDictProxy(MultiDict[str]())


@dataclass(frozen=True, slots=True)
class Public:
    """Anyone may call."""


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Anyone may call who has no credential yet, so often as an address may."""


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A bearer token whose reach has one of `scopes` in the organization (and project) of the path. `sight` is asked
    before 403 is said, and raises NotFound for what the caller would see if it were there.
    """

    scopes: tuple[str, ...]
    existence_check: ExistenceCheck | None = None


@dataclass(frozen=True, slots=True)
class SessionAuth:
    """A dashboard session, wherever it is; `owing`: also one whose user has yet to show the second factor."""

    allows_pending_mfa: bool = False


@dataclass(frozen=True, slots=True)
class ProjectKeyAuth:
    """A project key, in a header or in the query."""


Access = Public | Anonymous | BearerAuth | SessionAuth | ProjectKeyAuth


def public() -> Access:
    """No credential."""
    return Public()


def anonymous() -> Access:
    """429 for an address that calls too often, or has failed too often, before any byte of the body is read."""
    return Anonymous()


def bearer(*scopes: str) -> Access:
    """401 without a good token, 404 when the path is out of its sight, 403 without one of `scopes`. Which of several it
    takes is for the handler to say.
    """
    return BearerAuth(scopes)


def session(*, allows_pending_mfa: bool = False) -> Access:
    """401 without a good session, or (but for `owing`) while its second factor is owed; 403 for other tokens."""
    return SessionAuth(allows_pending_mfa)


def project_key() -> Access:
    """A project key, checked and held to its rate before any byte of the body is read; a refusal closes the
    connection.
    """
    return ProjectKeyAuth()


class BearerCheck(Protocol):
    """What `bearer` routes are guarded by, in two steps."""

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        """Who it is. Raises ApiError: 401, 503."""

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        """How far they reach. Raises ApiError: 404, then 403; 503."""


class ProjectKeyCheck(Protocol):
    """What `project_key` routes are guarded by. Raises ApiError: 400 for over-long values, 401, 403, 503.

    `admit` is asked before a key that nobody knows yet costs a look-up, `found` is told of a good key before 403 is
    said; what they raise comes through.
    """

    async def check(
        self,
        *,
        legacy_auth: str | None,
        authorization: str | None,
        legacy_key: str | None,
        project_id: str | None,
        before_lookup: Callable[[], Awaitable[None]],
        on_authenticated: Callable[[ProjectIdentity], Awaitable[None]],
    ) -> ProjectIdentity: ...


@dataclass(frozen=True, slots=True)
class Guards:
    """The checks a process has; a service deployed alone has only those that its routes name."""

    bearer: BearerCheck | None = None
    project_key: ProjectKeyCheck | None = None

    @classmethod
    def over(cls, auth: AuthGuards) -> Self:
        """Both, over the relational store."""
        return cls(auth.bearer, auth.project_keys)


def authorization_context(request: web.Request) -> AuthorizationContext:
    """What the caller may do; on `bearer` routes only."""
    return request[AUTHORIZATION_CONTEXT]


async def reauthorize(request: web.Request, connection: AsyncConnection, now: datetime) -> AuthorizationContext:
    """What the caller may do as of this transaction, and from here on; on `bearer` routes only. Raises what the guard
    would raise.
    """
    scopes: frozenset[str] = request[REQUIRED_SCOPES]
    request[AUTHORIZATION_CONTEXT] = await reload_authorization(connection, request[AUTHORIZATION_CONTEXT], scopes, now)
    return request[AUTHORIZATION_CONTEXT]


def authenticated_credential(request: web.Request) -> AuthenticatedCredential:
    """Whose session it is; on `session` routes only."""
    return request[AUTHENTICATED_CREDENTIAL]


async def reauthenticate(request: web.Request, connection: AsyncConnection, now: datetime) -> AuthenticatedCredential:
    """Whose session it is as of this transaction, and from here on; on `session` routes only. Raises what the guard
    would raise.
    """
    request[AUTHENTICATED_CREDENTIAL] = await reload_session_credential(
        connection, request[AUTHENTICATED_CREDENTIAL].token_id, now, allow_pending_mfa=request[ALLOWS_PENDING_MFA]
    )
    return request[AUTHENTICATED_CREDENTIAL]


def project(request: web.Request) -> ProjectIdentity:
    """The project that the key speaks for; on `project_key` routes only."""
    return request[PROJECT]


def with_access_check(
    access: Access, handler: Handler, guards: Guards, admission: RateLimits, limit: LimitClass
) -> Handler:
    """`handler` behind its rule. Raises ValueError when the rule has no guard in this process.

    `limit` is what requests of a principal count as, on `bearer` and `session` routes; those with a project key are
    OTLP.
    """
    if isinstance(access, Public):
        return handler
    if isinstance(access, Anonymous):
        return _with_address_limits(handler, admission)
    if isinstance(access, BearerAuth | SessionAuth):
        if guards.bearer is None:
            raise ValueError(f"nothing guards {access}")
        if isinstance(access, SessionAuth):
            return _with_session_check(guards.bearer, access.allows_pending_mfa, handler, admission, limit)
        return _with_bearer_check(guards.bearer, access, handler, admission, limit)
    if guards.project_key is None:
        raise ValueError(f"nothing guards {access}")
    return _with_project_key_check(guards.project_key, handler, admission)


def _with_address_limits(handler: Handler, admission: RateLimits) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        await admission.check_address(request, LimitClass.FAILED_BEARER)
        await admission.take_for_address(request, LimitClass.VISITOR)
        return await handler(request)

    return checked


def _with_bearer_check(
    guard: BearerCheck, access: BearerAuth, handler: Handler, admission: RateLimits, limit: LimitClass
) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        slugs = request.match_info
        found = await _authenticate_with_limits(request, guard, admission, limit)
        if found.mfa_pending:
            raise MfaRequired
        try:
            request[AUTHORIZATION_CONTEXT] = await guard.authorize(
                found, slugs["orgSlug"], slugs.get("projectSlug"), access.scopes
            )
        except Forbidden:
            if access.existence_check is not None:
                await access.existence_check(request, found)
            raise
        request[REQUIRED_SCOPES] = frozenset(access.scopes)
        return await handler(request)

    return checked


def _with_session_check(
    guard: BearerCheck, allows_pending_mfa: bool, handler: Handler, admission: RateLimits, limit: LimitClass
) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        found = await _authenticate_with_limits(request, guard, admission, limit)
        if not found.is_session:
            raise Forbidden("This is for dashboard sessions, not for personal access tokens.")
        if found.mfa_pending and not allows_pending_mfa:
            raise MfaRequired
        request[AUTHENTICATED_CREDENTIAL], request[ALLOWS_PENDING_MFA] = found, allows_pending_mfa
        return await handler(request)

    return checked


async def _authenticate_with_limits(
    request: web.Request, guard: BearerCheck, admission: RateLimits, limit: LimitClass
) -> AuthenticatedCredential:
    """Whose good credential it is, counted; what it is refused for afterwards has the headers of his limit."""
    await admission.check_address(request, LimitClass.FAILED_BEARER)
    found = await _authenticate(request, guard, admission)
    holder = f"{found.principal_id}@{found.org_id}"
    if limit in COUNTED_AS_API:
        await admission.take(request, LimitClass.API, holder)
    if limit is LimitClass.APPROVAL and found.owning_user_id is not None:  # a user may make as many agents as it takes
        holder = f"{found.owning_user_id}@{found.org_id}"
    await admission.take(request, limit, holder)
    return found


async def _authenticate(request: web.Request, guard: BearerCheck, admission: RateLimits) -> AuthenticatedCredential:
    """What was good once is not charged: a page left open asks with it on and on; locked out, it could not refresh."""
    try:
        return await guard.authenticate(_single_value(request.headers.getall("Authorization", [])))
    except CredentialExpired:
        raise
    except Unauthorized:
        await admission.record_address_failure(request, LimitClass.FAILED_BEARER)
        raise


def _with_project_key_check(guard: ProjectKeyCheck, handler: Handler, admission: RateLimits) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        try:
            await _check_project_key(request, guard, admission)
        except ApiError as error:
            error.close = True  # the body stays unread whatever the reason
            if "WWW-Authenticate" in error.headers:
                error.headers["WWW-Authenticate"] = "DSN"
            raise
        return await handler(request)

    return checked


async def _check_project_key(request: web.Request, guard: ProjectKeyCheck, admission: RateLimits) -> None:
    """Failures are charged to the address, and stop there what is unknown: a key in use is not held back by them. A
    good key is held to its rate before it is compared with the project that the request names.
    """

    async def hold(found: ProjectIdentity) -> None:
        request[PROJECT] = found
        await admission.take(request, LimitClass.OTLP, found.key_id, found.rate)

    try:
        query = request.query if "?" in request.raw_path else _NO_QUERY
        await guard.check(
            legacy_auth=_single_value(request.headers.getall("X-Legacy-Auth", [])),
            authorization=_single_value(request.headers.getall("Authorization", [])),
            legacy_key=_single_value(query.getall("legacy_key", [])),
            project_id=_single_value(query.getall("project_id", [])),
            before_lookup=partial(admission.check_address, request, LimitClass.FAILED_KEY),
            on_authenticated=hold,
        )
    except Unauthorized:
        await admission.record_address_failure(request, LimitClass.FAILED_KEY)
        raise


def _single_value(values: list[str]) -> str | None:
    """The one value; repeats must agree, for whichever of them counted would be a guess."""
    if len(values) > 1 and len(set(values)) > 1:
        raise Unauthorized("A credential is given more than once, with different values.")
    return values[0] if values else None
