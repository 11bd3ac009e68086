"""Access rules of routes, and the checks that hold them before a handler runs.

A rule is data (`public()`, `visitor()`, `bearer(scope)`, `session()`, `project_key()`); the guards are handed in.
`guarded` joins the two, so a handler never runs unchecked and a route cannot be declared without its rule.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from aiohttp import web
from multidict import MultiDict, MultiDictProxy
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import ApiError, FactorRequired, Forbidden, Outlived, Unauthorized
from chassis.identity.grants import reach_now, session_now
from chassis.identity.model import Grant, ProjectIdentity, Reach
from chassis.limits.admission import Admission
from chassis.limits.limiter import OF_API, LimitClass

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Sight = Callable[[web.Request, Grant], Awaitable[None]]

REACH: Final = web.RequestKey("reach", Reach)
SCOPES: Final = web.RequestKey("scopes", frozenset[str])  # one of which the route takes
GRANT: Final = web.RequestKey("grant", Grant)
OWING: Final = web.RequestKey("owing", bool)  # whether the route takes a session whose second factor is owed
PROJECT: Final = web.RequestKey("project", ProjectIdentity)

_NO_QUERY: Final = MultiDictProxy(MultiDict[str]())


@dataclass(frozen=True, slots=True)
class Public:
    """Anyone may call."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Anyone may call who has no credential yet, so often as an address may."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token whose reach has one of `scopes` in the organization (and project) of the path. `sight` is asked
    before 403 is said, and raises NotFound for what the caller would see if it were there.
    """

    scopes: tuple[str, ...]
    sight: Sight | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A dashboard session, wherever it is; `owing`: also one whose user has yet to show the second factor."""

    owing: bool = False


@dataclass(frozen=True, slots=True)
class ProjectKey:
    """A project key, in a header or in the query."""


Access = Public | Visitor | Bearer | Session | ProjectKey


def public() -> Access:
    """No credential."""
    return Public()


def visitor() -> Access:
    """429 for an address that calls too often, or has failed too often, before any byte of the body is read."""
    return Visitor()


def bearer(*scopes: str) -> Access:
    """401 without a good token, 404 when the path is out of its sight, 403 without one of `scopes`. Which of several it
    takes is for the handler to say.
    """
    return Bearer(scopes)


def session(*, owing: bool = False) -> Access:
    """401 without a good session, or (but for `owing`) while its second factor is owed; 403 for other tokens."""
    return Session(owing)


def project_key() -> Access:
    """A project key, checked and held to its rate before any byte of the body is read; a refusal closes the
    connection.
    """
    return ProjectKey()


class BearerCheck(Protocol):
    """What `bearer` routes are guarded by, in two steps."""

    async def authenticate(self, authorization: str | None) -> Grant:
        """Who it is. Raises ApiError: 401, 503."""

    async def authorize(self, grant: Grant, org_slug: str, project_slug: str | None, scopes: Collection[str]) -> Reach:
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
        admit: Callable[[], Awaitable[None]],
        found: Callable[[ProjectIdentity], Awaitable[None]],
    ) -> ProjectIdentity: ...


@dataclass(frozen=True, slots=True)
class Guards:
    """The checks a process has; a service deployed alone has only those that its routes name."""

    bearer: BearerCheck | None = None
    project_key: ProjectKeyCheck | None = None


def reach(request: web.Request) -> Reach:
    """What the caller may do; on `bearer` routes only."""
    return request[REACH]


async def reach_again(request: web.Request, connection: AsyncConnection, now: datetime) -> Reach:
    """What the caller may do as of this transaction, and from here on; on `bearer` routes only. Raises what the guard
    would raise.
    """
    scopes: frozenset[str] = request[SCOPES]
    request[REACH] = await reach_now(connection, request[REACH], scopes, now)
    return request[REACH]


def grant(request: web.Request) -> Grant:
    """Whose session it is; on `session` routes only."""
    return request[GRANT]


async def grant_again(request: web.Request, connection: AsyncConnection, now: datetime) -> Grant:
    """Whose session it is as of this transaction, and from here on; on `session` routes only. Raises what the guard
    would raise.
    """
    request[GRANT] = await session_now(connection, request[GRANT].token_id, now, owing=request[OWING])
    return request[GRANT]


def project(request: web.Request) -> ProjectIdentity:
    """The project that the key speaks for; on `project_key` routes only."""
    return request[PROJECT]


def guarded(access: Access, handler: Handler, guards: Guards, admission: Admission, limit: LimitClass) -> Handler:
    """`handler` behind its rule. Raises ValueError when the rule has no guard in this process.

    `limit` is what requests of a principal count as, on `bearer` and `session` routes; those with a project key are
    OTLP.
    """
    if isinstance(access, Public):
        return handler
    if isinstance(access, Visitor):
        return _behind_address(handler, admission)
    if isinstance(access, Bearer | Session):
        if guards.bearer is None:
            raise ValueError(f"nothing guards {access}")
        if isinstance(access, Session):
            return _behind_session(guards.bearer, access.owing, handler, admission, limit)
        return _behind_bearer(guards.bearer, access, handler, admission, limit)
    if guards.project_key is None:
        raise ValueError(f"nothing guards {access}")
    return _behind_project_key(guards.project_key, handler, admission)


def _behind_address(handler: Handler, admission: Admission) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        await admission.admit_address(request, LimitClass.FAILED_BEARER)
        await admission.take_of_address(request, LimitClass.VISITOR)
        return await handler(request)

    return checked


def _behind_bearer(
    guard: BearerCheck, access: Bearer, handler: Handler, admission: Admission, limit: LimitClass
) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        slugs = request.match_info
        found = await _admitted(request, guard, admission, limit)
        if found.owes_factor:
            raise FactorRequired
        try:
            request[REACH] = await guard.authorize(found, slugs["orgSlug"], slugs.get("projectSlug"), access.scopes)
        except Forbidden:
            if access.sight is not None:
                await access.sight(request, found)
            raise
        request[SCOPES] = frozenset(access.scopes)
        return await handler(request)

    return checked


def _behind_session(
    guard: BearerCheck, owing: bool, handler: Handler, admission: Admission, limit: LimitClass
) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        found = await _admitted(request, guard, admission, limit)
        if not found.is_session:
            raise Forbidden("This is for dashboard sessions, not for personal access tokens.")
        if found.owes_factor and not owing:
            raise FactorRequired
        request[GRANT], request[OWING] = found, owing
        return await handler(request)

    return checked


async def _admitted(request: web.Request, guard: BearerCheck, admission: Admission, limit: LimitClass) -> Grant:
    """Whose good credential it is, counted; what it is refused for afterwards has the headers of his limit."""
    await admission.admit_address(request, LimitClass.FAILED_BEARER)
    found = await _authenticated(request, guard, admission)
    holder = f"{found.principal_id}@{found.org_id}"
    if limit in OF_API:
        await admission.take(request, LimitClass.API, holder)
    if limit is LimitClass.APPROVAL and found.root_id is not None:  # a user may make as many agents as it takes
        holder = f"{found.root_id}@{found.org_id}"
    await admission.take(request, limit, holder)
    return found


async def _authenticated(request: web.Request, guard: BearerCheck, admission: Admission) -> Grant:
    """What was good once is not charged: a page left open asks with it on and on; locked out, it could not refresh."""
    try:
        return await guard.authenticate(_only(request.headers.getall("Authorization", [])))
    except Outlived:
        raise
    except Unauthorized:
        await admission.charge_address(request, LimitClass.FAILED_BEARER)
        raise


def _behind_project_key(guard: ProjectKeyCheck, handler: Handler, admission: Admission) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        try:
            await _identify(request, guard, admission)
        except ApiError as error:
            error.close = True  # the body stays unread whatever the reason
            if "WWW-Authenticate" in error.headers:
                error.headers["WWW-Authenticate"] = "DSN"
            raise
        return await handler(request)

    return checked


async def _identify(request: web.Request, guard: ProjectKeyCheck, admission: Admission) -> None:
    """Failures are charged to the address, and stop there what is unknown: a key in use is not held back by them. A
    good key is held to its rate before it is compared with the project that the request names.
    """

    async def hold(found: ProjectIdentity) -> None:
        request[PROJECT] = found
        await admission.take(request, LimitClass.OTLP, found.key_id, found.rate)

    try:
        query = request.query if "?" in request.raw_path else _NO_QUERY
        await guard.check(
            legacy_auth=_only(request.headers.getall("X-Legacy-Auth", [])),
            authorization=_only(request.headers.getall("Authorization", [])),
            legacy_key=_only(query.getall("legacy_key", [])),
            project_id=_only(query.getall("project_id", [])),
            admit=partial(admission.admit_address, request, LimitClass.FAILED_KEY),
            found=hold,
        )
    except Unauthorized:
        await admission.charge_address(request, LimitClass.FAILED_KEY)
        raise


def _only(values: list[str]) -> str | None:
    """The one value; repeats must agree, for whichever of them counted would be a guess."""
    if len(values) > 1 and len(set(values)) > 1:
        raise Unauthorized("A credential is given more than once, with different values.")
    return values[0] if values else None
