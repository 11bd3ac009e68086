"""Access rules of routes, and the checks that enforce them before a handler runs.

A rule is data (`public()`, `anonymous()`, `bearer(scope)`, `session()`, `project_key()`, `directory(check)`). The
guards that check the rules (`Guards`) are passed in. Only the rule for directories contains its own guard, because only
one service has that guard. `with_access_check` combines rules and guards: a handler never runs unchecked, and a route
cannot be declared without a rule.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol, Self

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import reload_authorization, reload_session_credential
from chassis.auth.guards import AuthGuards
from chassis.auth.model import AuthenticatedCredential, AuthorizationContext, DirectoryIdentity, ProjectIdentity
from chassis.auth.project_credential import QueryCredential, parse_query, single_value
from chassis.errors import (
    ApiError,
    BadRequest,
    CredentialExpired,
    Forbidden,
    MfaRequired,
    PayloadTooLarge,
    Unauthorized,
    UnsupportedMediaType,
)
from chassis.limits.limiter import COUNTED_AS_API, LimitClass
from chassis.limits.rate_limits import ClientRequest, RateLimits

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ExistenceCheck = Callable[[web.Request, AuthenticatedCredential], Awaitable[None]]

AUTHORIZATION_CONTEXT: Final = web.RequestKey("authorization_context", AuthorizationContext)
REQUIRED_SCOPES: Final = web.RequestKey("required_scopes", frozenset[str])  # of which the route requires one
AUTHENTICATED_CREDENTIAL: Final = web.RequestKey("authenticated_credential", AuthenticatedCredential)
ALLOWS_PENDING_MFA: Final = web.RequestKey(
    "allows_pending_mfa", bool
)  # whether the route accepts a session whose second factor is pending
PROJECT: Final = web.RequestKey("project", ProjectIdentity)
DIRECTORY: Final = web.RequestKey("directory", DirectoryIdentity)


@dataclass(frozen=True, slots=True)
class Public:
    """No credential is required, and no rate limit applies."""


@dataclass(frozen=True, slots=True)
class Anonymous:
    """No credential is required. The rate limits of the client address apply."""


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A bearer token with one of `scopes` in the organization (and project) of the path is required. `existence_check`
    runs before a 400, 403, 413 or 415, and raises NotFound for a missing resource that the caller could read if it
    existed. `path_check` runs before organization and project are looked up, and raises BadRequest.
    """

    scopes: tuple[str, ...]
    existence_check: ExistenceCheck | None = None
    path_check: Callable[[web.Request], None] | None = None


@dataclass(frozen=True, slots=True)
class SessionAuth:
    """A dashboard session of any organization is required. `allows_pending_mfa` also accepts a session whose second
    factor is pending. `accepts_tokens` also accepts a personal access token.
    """

    allows_pending_mfa: bool = False
    accepts_tokens: bool = False


@dataclass(frozen=True, slots=True)
class ProjectKeyAuth:
    """A project key is required, in a header or in the query string."""


class DirectoryCheck(Protocol):
    """The guard of `directory` routes."""

    async def check(self, authorization: str | None, org_slug: str) -> DirectoryIdentity:
        """Authenticate the directory. Raises ApiError with 401, 404 (for another organization) or 503."""


@dataclass(frozen=True, slots=True)
class DirectoryAuth:
    """A token of the directory of the path's organization is required."""

    guard: DirectoryCheck


Access = Public | Anonymous | BearerAuth | SessionAuth | ProjectKeyAuth | DirectoryAuth


def public() -> Access:
    """A route that requires no credential."""
    return Public()


def anonymous() -> Access:
    """A route that requires no credential. A client address with too many requests or too many failed authentications
    gets 429 before any byte of the body is read.
    """
    return Anonymous()


def bearer(*scopes: str) -> Access:
    """A route that requires a bearer token with one of `scopes`: 401 without a valid token, 404 for an organization or
    project that the token may not see, 403 without one of `scopes`. One of several scopes is enough, and the handler
    decides what each scope permits.
    """
    return BearerAuth(scopes)


def session(*, allows_pending_mfa: bool = False) -> Access:
    """A route that requires a session: 401 without a valid session or, unless `allows_pending_mfa`, while its second
    factor is pending, and 403 for other tokens.
    """
    return SessionAuth(allows_pending_mfa)


def any_credential() -> Access:
    """A route that requires a session or token of any organization: 401 without a valid one. Accepts a session whose
    second factor is pending.
    """
    return SessionAuth(allows_pending_mfa=True, accepts_tokens=True)


def project_key() -> Access:
    """A route that requires a project key, which is checked and rate-limited before any byte of the body is read. A
    refusal closes the connection.
    """
    return ProjectKeyAuth()


def directory(check: DirectoryCheck) -> Access:
    """A route that requires a token of a directory: 401 without a valid token, 404 for another organization than the
    directory's.
    """
    return DirectoryAuth(check)


class BearerCheck(Protocol):
    """The guard of `bearer` and `session` routes, in two steps."""

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        """Authenticate the caller. Raises ApiError with 401 or 503."""

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        """Authorize the caller for an organization and project. Raises ApiError with 404, 403 or 503. 404 is checked
        before 403.
        """


class ProjectKeyCheck(Protocol):
    """The guard of `project_key` routes. Raises ApiError with 400 (for values that are too long), 401, 403 or 503.

    `before_lookup` is called before the lookup of a key that is not in memory. `on_authenticated` is called with the
    project of a valid key before the check that may raise 403. Exceptions of both propagate.
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
    """The guards of a process. A service that is deployed alone has only the guards that its routes need."""

    bearer: BearerCheck | None = None
    project_key: ProjectKeyCheck | None = None

    @classmethod
    def over(cls, auth: AuthGuards) -> Self:
        """Both guards, which read the relational database."""
        return cls(auth.bearer, auth.project_keys)


def authorization_context(request: web.Request) -> AuthorizationContext:
    """The permissions of the caller. On `bearer` routes only."""
    return request[AUTHORIZATION_CONTEXT]


async def reauthorize(request: web.Request, connection: AsyncConnection, now: datetime) -> AuthorizationContext:
    """Reload the permissions of the caller within this transaction, and store them on the request. On `bearer` routes
    only. Raises the same errors as the guard.
    """
    scopes: frozenset[str] = request[REQUIRED_SCOPES]
    request[AUTHORIZATION_CONTEXT] = await reload_authorization(connection, request[AUTHORIZATION_CONTEXT], scopes, now)
    return request[AUTHORIZATION_CONTEXT]


def authenticated_credential(request: web.Request) -> AuthenticatedCredential:
    """The credential of the caller. On `session` and `any_credential` routes only."""
    return request[AUTHENTICATED_CREDENTIAL]


async def reauthenticate(request: web.Request, connection: AsyncConnection, now: datetime) -> AuthenticatedCredential:
    """Reload the caller's session within this transaction, and store the session on the request. On `session` routes
    only. Raises the same errors as the guard.
    """
    request[AUTHENTICATED_CREDENTIAL] = await reload_session_credential(
        connection, request[AUTHENTICATED_CREDENTIAL].token_id, now, allow_pending_mfa=request[ALLOWS_PENDING_MFA]
    )
    return request[AUTHENTICATED_CREDENTIAL]


def project(request: web.Request) -> ProjectIdentity:
    """The project that the key identifies. On `project_key` routes only."""
    return request[PROJECT]


def directory_identity(request: web.Request) -> DirectoryIdentity:
    """The directory that sent the request. On `directory` routes only."""
    return request[DIRECTORY]


def with_access_check(
    access: Access, handler: Handler, guards: Guards, rate_limits: RateLimits, limit: LimitClass
) -> Handler:
    """Wrap `handler` so that its access rule is checked first. Raises ValueError when this process has no guard for the
    rule.

    `limit` is the rate-limit class of a principal's requests on `bearer` and `session` routes. Requests with a project
    key have the class OTLP.
    """
    if isinstance(access, Public):
        return handler
    if isinstance(access, Anonymous):
        return _with_address_limits(handler, rate_limits)
    if isinstance(access, BearerAuth | SessionAuth):
        if guards.bearer is None:
            raise ValueError(f"no guard for {access}")
        if isinstance(access, SessionAuth):
            return _with_session_check(guards.bearer, access, handler, rate_limits, limit)
        return _with_bearer_check(guards.bearer, access, handler, rate_limits, limit)
    if isinstance(access, DirectoryAuth):
        return _with_directory_check(access.guard, handler, rate_limits)
    if guards.project_key is None:
        raise ValueError(f"no guard for {access}")
    return _with_project_key_check(guards.project_key, handler, rate_limits)


def _with_address_limits(handler: Handler, rate_limits: RateLimits) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        await rate_limits.check_address(request, LimitClass.FAILED_BEARER)
        await rate_limits.take_for_address(request, LimitClass.VISITOR)
        return await handler(request)

    return checked


def _with_bearer_check(
    guard: BearerCheck, access: BearerAuth, handler: Handler, rate_limits: RateLimits, limit: LimitClass
) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        slugs = request.match_info
        found = await _authenticate_with_limits(request, guard, rate_limits, limit)
        if found.mfa_pending:
            raise MfaRequired
        if access.path_check is not None:
            access.path_check(request)
        try:
            request[AUTHORIZATION_CONTEXT] = await guard.authorize(
                found, slugs["orgSlug"], slugs.get("projectSlug"), access.scopes
            )
            request[REQUIRED_SCOPES] = frozenset(access.scopes)
            return await handler(request)
        except (Forbidden, BadRequest, PayloadTooLarge, UnsupportedMediaType):
            if access.existence_check is not None:
                await access.existence_check(request, found)
            raise

    return checked


def _with_session_check(
    guard: BearerCheck, access: SessionAuth, handler: Handler, rate_limits: RateLimits, limit: LimitClass
) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        found = await _authenticate_with_limits(request, guard, rate_limits, limit)
        if not found.is_session and not access.accepts_tokens:
            raise Forbidden("This endpoint requires a session (POST /auth/login), not a personal access token.")
        if found.mfa_pending and not access.allows_pending_mfa:
            raise MfaRequired
        request[AUTHENTICATED_CREDENTIAL], request[ALLOWS_PENDING_MFA] = found, access.allows_pending_mfa
        return await handler(request)

    return checked


async def _authenticate_with_limits(
    request: web.Request, guard: BearerCheck, rate_limits: RateLimits, limit: LimitClass
) -> AuthenticatedCredential:
    """Authenticate the request and count it for its principal. Later refusals have the headers of that rate limit."""
    await rate_limits.check_address(request, LimitClass.FAILED_BEARER)
    found = await _authenticate(request, guard, rate_limits)
    holder = f"{found.principal_id}@{found.org_id}"
    if limit in COUNTED_AS_API:
        await rate_limits.take(request, LimitClass.API, holder)
    if limit is LimitClass.APPROVAL and found.owning_user_id is not None:  # a user can create any number of agents
        holder = f"{found.owning_user_id}@{found.org_id}"
    await rate_limits.take(request, limit, holder)
    return found


async def _authenticate(request: web.Request, guard: BearerCheck, rate_limits: RateLimits) -> AuthenticatedCredential:
    """Authenticate the request. An expired credential does not count as a failed authentication: an open browser page
    keeps sending it, and could not refresh the session if the failure limit applied.
    """
    try:
        return await guard.authenticate(single_value(request.headers.getall("Authorization", [])))
    except CredentialExpired:
        raise
    except Unauthorized:
        await rate_limits.record_address_failure(request, LimitClass.FAILED_BEARER)
        raise


def _with_directory_check(guard: DirectoryCheck, handler: Handler, rate_limits: RateLimits) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        await rate_limits.check_address(request, LimitClass.FAILED_BEARER)
        try:
            authorization = single_value(request.headers.getall("Authorization", []))
            found = await guard.check(authorization, request.match_info["orgSlug"])
        except Unauthorized:
            await rate_limits.record_address_failure(request, LimitClass.FAILED_BEARER)
            raise
        request[DIRECTORY] = found
        await rate_limits.take(request, LimitClass.SCIM, found.org_id)
        return await handler(request)

    return checked


def _with_project_key_check(guard: ProjectKeyCheck, handler: Handler, rate_limits: RateLimits) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        try:
            await _check_project_key(request, guard, rate_limits)
        except ApiError as error:
            error.close = True  # no error handler reads the body
            if "WWW-Authenticate" in error.headers:
                error.headers["WWW-Authenticate"] = "DSN"
            raise
        return await handler(request)

    return checked


async def _check_project_key(request: web.Request, guard: ProjectKeyCheck, rate_limits: RateLimits) -> None:
    try:
        named = parse_query(request.raw_path.partition("?")[2])
    except Unauthorized:
        await rate_limits.record_address_failure(request, LimitClass.FAILED_KEY)
        raise
    await check_project_key(request, named, guard, rate_limits)


async def check_project_key(
    request: ClientRequest, named: QueryCredential, guard: ProjectKeyCheck, rate_limits: RateLimits
) -> None:
    """Find the project of the key in the headers or in the query (`named`), and store the project on the request.

    Failures count for the client address. They limit only the lookup of keys that are not in memory. A valid key is
    rate-limited before its project is compared with the project that the request names.
    """

    async def take_permit(project: ProjectIdentity) -> None:
        request[PROJECT] = project
        await rate_limits.take(request, LimitClass.OTLP, project.key_id, project.rate)

    try:
        await guard.check(
            legacy_auth=single_value(request.headers.getall("X-Legacy-Auth", [])),
            authorization=single_value(request.headers.getall("Authorization", [])),
            legacy_key=named.legacy_key,
            project_id=named.project_id,
            before_lookup=partial(rate_limits.check_address, request, LimitClass.FAILED_KEY),
            on_authenticated=take_permit,
        )
    except Unauthorized:
        await rate_limits.record_address_failure(request, LimitClass.FAILED_KEY)
        raise
