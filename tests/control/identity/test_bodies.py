"""Bodies that are not valid: the 400 names every field that is wrong, and what is wrong with it."""

from typing import Any, Final, NamedTuple

from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import Person

ACCEPT: Final = "/auth/invitations/accept"
INVITATIONS: Final = "/orgs/acme/invitations"
LOGIN: Final = "/auth/login"
PRINCIPALS: Final = "/orgs/acme/principals"
SWITCH: Final = "/auth/switch"
TOKENS: Final = "/orgs/acme/tokens"
KNOWN: Final = {"email": "a@b", "password": "x"}
# What is sent where, and the code of each field that is wrong.
INVALID: Final[dict[str, tuple[tuple[Any, dict[str, str]], ...]]] = {
    LOGIN: (
        ({}, {"body.email": "missing", "body.password": "missing"}),
        ({"email": "ada", "password": ""}, {"body.email": "format", "body.password": "too_short"}),
        ({"email": "a@", "password": "x" * 201}, {"body.email": "too_short", "body.password": "too_long"}),
        *((KNOWN | {"email": email}, {"body.email": "format"}) for email in ("a" * 250 + "@b.c", "a@b.c\n")),
        (KNOWN | {"email": "a@" + "b" * 253}, {"body.email": "too_long"}),
        (KNOWN | {"totp": "12345"}, {"body.totp": "too_short"}),
        (KNOWN | {"totp": "1" * 18}, {"body.totp": "too_long"}),
        (KNOWN | {"orgSlug": "A"}, {"body.orgSlug": "format"}),
        (KNOWN | {"user": "y"}, {"body.user": "unknown_field"}),
        ([], {"body": "type"}),
    ),
    INVITATIONS: (
        ({}, {"body.email": "missing", "body.role": "missing"}),
        ({"email": "a", "role": "KING"}, {"body.email": "too_short", "body.role": "not_allowed"}),
        *(({"email": email, "role": "VIEWER"}, {"body.email": "format"}) for email in ("a@b c", "a@b.")),
        ({"email": "a@" + "b" * 253, "role": "VIEWER"}, {"body.email": "too_long"}),
    ),
    ACCEPT: (
        ({}, dict.fromkeys(("body.inviteToken", "body.name", "body.password"), "missing")),
        (
            {"inviteToken": "x" * 129, "name": "", "password": ""},
            {"body.inviteToken": "too_long", "body.name": "too_short", "body.password": "too_short"},
        ),
        ({"inviteToken": "x", "name": "x", "password": "x" * 201}, {"body.password": "too_long"}),
    ),
    TOKENS: (
        ({}, {"body.name": "missing"}),
        ({"name": "", "expiresInDays": 0}, {"body.name": "too_short", "body.expiresInDays": "too_small"}),
        ({"name": "x", "expiresInDays": 3_651}, {"body.expiresInDays": "too_large"}),
        ({"name": "x", "expiresInDays": 1.5}, {"body.expiresInDays": "type"}),
        ({"name": "x", "scopes": []}, {"body.scopes": "too_short"}),
        ({"name": "x", "scopes": ["projects:read"] * (len(Scope) + 1)}, {"body.scopes": "too_long"}),
        ({"name": "x", "scopes": ["all"]}, {"body.scopes[0]": "not_allowed"}),
        ({"name": "x", "token": "mine"}, {"body.token": "unknown_field"}),
    ),
    PRINCIPALS: (
        ({}, {"body.kind": "missing", "body.name": "missing"}),
        ({"kind": "user", "name": "x"}, {"body.kind": "not_allowed"}),
        ({"kind": "agent", "name": "x" * 201}, {"body.name": "too_long"}),
        ({"kind": "agent", "name": "x", "ownerId": "x"}, {"body.ownerId": "unknown_field"}),
    ),
    SWITCH: (
        ({"refreshToken": "x"}, {"body.orgSlug": "missing"}),
        ({"orgSlug": "Globex", "refreshToken": "x"}, {"body.orgSlug": "format"}),
        ({"orgSlug": "globex"}, {"body.refreshToken": "required"}),
        ({"orgSlug": "globex", "refreshToken": ""}, {"body.refreshToken": "too_short"}),
        ({"orgSlug": "globex", "refreshToken": "x", "totp": "123456"}, {"body.totp": "unknown_field"}),
    ),
    "/auth/totp": (({}, {"body.password": "missing"}),),
    "/auth/totp/confirm": (
        ({"code": "12345"}, {"body.code": "too_short"}),
        ({"code": "1" * 18}, {"body.code": "too_long"}),
    ),
    "/auth/totp/disable": (({}, {"body.password": "missing", "body.code": "missing"}),),
    "/auth/totp/verify": (({"code": 1, "x": 1}, {"body.code": "type", "body.x": "unknown_field"}),),
}


async def test_invalid_bodies_name_every_field(control: Control, ada: Person) -> None:
    for path, bodies in INVALID.items():
        token = ada.access if path.startswith("/auth/totp") else None
        for body, issues in bodies:
            status, answer, _ = await control.call("POST", path, body, token)
            named = {issue["path"]: issue["code"] for issue in answer["error"]["details"]}
            assert (status, named, len(answer["error"]["details"])) == (400, issues, len(issues)), (path, body)


async def test_bounds_are_inclusive(control: Control) -> None:
    for days in (1, 3_650):
        body = {"name": "x", "expiresInDays": days, "scopes": [scope.value for scope in Scope]}
        assert (await control.call("POST", TOKENS, body))[0] == 201
    label = "b" * 63
    email = "a" * 62 + f"@{label}.{label}.{label}"
    assert len(email) == 254
    status, made, _ = await control.call("POST", INVITATIONS, {"email": email, "role": "VIEWER"})
    assert (status, made["email"]) == (201, email)


TEXT = {"Content-Type": "text/plain"}
MACHINES = "/orgs/acme/principals"


class Sent(NamedTuple):
    """A body that is none."""

    body: object
    headers: dict[str, str]
    status: int  # for who may


SENT = [Sent({"x": 1}, {}, 400), Sent({}, TEXT, 415), Sent({"x": "y" * 70_000}, {}, 413)]


async def check(control: Control, method: str, path: str, forbidden: str, permitted: str) -> None:
    """One of two callers may do this, and is told what is wrong with the body."""
    for sent in SENT:
        for token, expected in ((forbidden, 403), (permitted, sent.status)):
            answer = await control.call(method, path, sent.body, token, headers=sent.headers)
            assert answer[0] == expected, (method, path, sent.status)


async def test_changing_an_owner_is_403_before_400(control: Control) -> None:
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    await check(control, "PATCH", f"/orgs/acme/members/{control.acme.owner_id}", admin, control.acme.token.secret)


async def test_changing_a_foreign_agent_is_403_before_400(control: Control, ada: Person) -> None:
    _, agent, _ = await ada.call("POST", MACHINES, {"kind": "agent", "name": "Bot"})
    path = f"{MACHINES}/{agent['principalId']}"
    seeing = frozenset({Scope.MEMBERS_READ, Scope.TOKENS_WRITE})
    _, reader = await new_member_token(control.checks.database, control.acme, Role.ADMIN, seeing)
    await check(control, "PATCH", path, reader, ada.access)
    await check(control, "POST", f"{path}/tokens", control.acme.token.secret, ada.access)
