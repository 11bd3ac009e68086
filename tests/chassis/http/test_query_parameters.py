"""Undeclared query parameters: refused where a bearer token is, by name, and after the token; ignored elsewhere."""

from collections.abc import Collection
from typing import Annotated, Any

import msgspec
import pytest
from aiohttp import web

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext, DirectoryIdentity
from chassis.errors import Forbidden, NotFound, Unauthorized
from chassis.http.access import Guards, anonymous, any_credential, bearer, directory, public, session
from chassis.http.route import Operation, Parameter, ResponseSpec, Tag
from chassis.http.validation import MAX_ISSUES
from chassis.http.web import Route, json_response
from proto.identity import Role, Scope
from tests.chassis.conftest import Serve, Served

PATH = "/orgs/acme/things"
PARAMETERS = (
    Parameter("limit", "query", Annotated[int, msgspec.Meta(ge=1)], "At most."),
    Parameter("filters", "query", str, "Which."),
    Parameter("orgSlug", "path", str, "Whose."),
    Parameter("If-Match", "header", str, "Which one."),
)


class Guard:
    """Tokens: `mine` may read in acme, `blind` may not."""

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        name = (authorization or "").removeprefix("Bearer ")
        if name not in ("mine", "blind"):
            raise Unauthorized
        return AuthenticatedCredential("t", name, "o1", "acme", Role.MEMBER, frozenset(), is_session=True)

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, _scopes: Collection[str]
    ) -> AuthorizationContext:
        if org_slug != "acme":
            raise NotFound
        if grant.principal_id == "blind":
            raise Forbidden
        return AuthorizationContext("mine", "t", "o1", org_slug, Role.MEMBER, frozenset(), None, project_slug)


class Directories:
    """Everybody is a directory of acme."""

    async def check(self, authorization: str | None, org_slug: str) -> DirectoryIdentity:  # noqa: ARG002
        return DirectoryIdentity("t", "o1", "acme")


async def echo(request: web.Request) -> web.Response:
    """Return the query."""
    return json_response(list(request.query.items()))


def operation(name: str, parameters: tuple[Parameter, ...] = PARAMETERS) -> Operation:
    return Operation(name, Tag("things", "Things."), (ResponseSpec("It."),), parameters)


ROUTES = [
    Route("GET", "/orgs/{orgSlug}/things", echo, bearer(Scope.EXPLORE_READ), operation=operation("list")),
    Route("POST", "/orgs/{orgSlug}/things", echo, bearer(Scope.EXPLORE_READ), operation=operation("make", ())),
    Route("GET", "/auth/me", echo, session(), operation=operation("me", ())),
    Route("GET", "/auth/who", echo, any_credential(), operation=operation("who", ())),
    Route("GET", "/sso/start", echo, anonymous(), operation=operation("start", ())),
    Route("GET", "/scim/{orgSlug}/Users", echo, directory(Directories()), operation=operation("users", ())),
    Route("GET", "/page", echo, public(), operation=operation("page", ())),
]


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve(ROUTES, guards=Guards(bearer=Guard()), failed_bearer_rate=0)


async def ask(served: Served, path: str, method: str = "GET", token: str = "mine") -> tuple[int, Any]:
    status, _, raw = await served.request(method, path, headers={"Authorization": f"Bearer {token}"})
    return status, msgspec.json.decode(raw)


def refused(answer: tuple[int, Any]) -> list[str]:
    status, body = answer
    assert status == 400, body
    assert {issue["code"] for issue in body["error"]["details"]} == {"unknown_field"}
    return [issue["path"] for issue in body["error"]["details"]]


async def test_each_undeclared_parameter_is_named_once(served: Served) -> None:
    found = refused(await ask(served, f"{PATH}?limit=1&Limit=2&sort=x&sort=y&filters=a&orgSlug=b&=c"))
    assert found == ["query.Limit", "query.sort", "query.orgSlug", "query."]
    status, body = await ask(served, f"{PATH}?sort=x")
    assert (status, body["error"]["message"]) == (400, "The query is not valid.")
    assert body["error"]["details"][0]["message"] == "Is not a known parameter. Known parameters: filters, limit."
    for method, path in (("POST", PATH), ("GET", "/auth/me"), ("GET", "/auth/who")):
        status, body = await ask(served, f"{path}?limit=1", method)
        assert status == 400
        assert body["error"]["details"][0]["message"] == "Is not a known parameter. This path has no parameters."


async def test_declared_parameters_pass(served: Served) -> None:
    passed = [["limit", "x"], ["filters", ""], ["limit", "2"]]
    assert await ask(served, f"{PATH}?limit=x&filters=&limit=2") == (200, passed)
    for path in (PATH, f"{PATH}?", f"{PATH}?&&"):
        assert await ask(served, path) == (200, [])


async def test_the_token_comes_first(served: Served) -> None:
    assert (await ask(served, f"{PATH}?sort=x", token="nobody"))[0] == 401
    assert (await ask(served, "/orgs/globex/things?sort=x"))[0] == 404
    assert (await ask(served, f"{PATH}?sort=x", token="blind"))[0] == 403


async def test_others_ignore_them(served: Served) -> None:
    for path in ("/sso/start", "/scim/acme/Users", "/page", "/livez"):
        assert (await ask(served, f"{path}?sort=x"))[0] == 200, path


async def test_hostile_names_come_back_as_text(served: Served) -> None:
    shown = {"%00": "\0", "%E2%80%AE": "\u202e", "a%26b%3Dc": "a&b=c", "<script>": "<script>", "a+b": "a b"}
    for name, text in (shown | {"%F0%9F%A6%A5": "\U0001f9a5"}).items():
        assert refused(await ask(served, f"{PATH}?{name}=1")) == [f"query.{text}"]


async def test_names_are_bounded(served: Served) -> None:
    (path,) = refused(await ask(served, f"{PATH}?{'x' * 5_000}=1"))
    assert len(path) < 500
    assert len(refused(await ask(served, f"{PATH}?{'&'.join(f'n{n}' for n in range(1_000))}"))) == MAX_ISSUES
    assert (await ask(served, f"{PATH}?%ED%A0%80%FF=1"))[0] == 400
