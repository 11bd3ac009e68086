"""People with passwords in the organizations of the tests."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pyotp
import pytest

from chassis.auth.tables import users
from control.identity.users import user_store
from tests.control.conftest import Control

PASSWORD = "correct horse battery"
NewPerson = Callable[..., Awaitable["Person"]]


@dataclass
class Person:
    """A user who is logged in."""

    control: Control
    email: str
    id: str
    access: str
    refresh: str

    async def call(self, method: str, path: str, body: object = None, **options: Any) -> tuple[int, Any, Any]:
        """With the access token of the session."""
        return await self.control.call(method, path, body, self.access, **options)

    async def login(self, **more: Any) -> tuple[int, Any, Any]:
        """Once more."""
        return await self.control.call("POST", "/auth/login", {"email": self.email, "password": PASSWORD} | more)


@pytest.fixture
async def person(control: Control) -> NewPerson:
    """Makes people, by invitation. `verified`: with a verified address. `existing`: the account that has one joins."""

    async def made(
        email: str = "ada@example.org",
        role: str = "MEMBER",
        org: str = "acme",
        *,
        verified: bool = False,
        existing: bool = False,
    ) -> Person:
        owner = control.acme if org == "acme" else control.globex
        status, invitation, _ = await control.call(
            "POST", f"/orgs/{org}/invitations", {"email": email, "role": role}, owner.token.secret
        )
        assert status == 201, invitation
        body = {"inviteToken": invitation["inviteToken"], "name": email.partition("@")[0].title(), "password": PASSWORD}
        accepted = body | {"existingAccount": existing}
        status, material, _ = await control.call("POST", "/auth/invitations/accept", accepted)
        assert status == 201, material
        if verified:
            await verify(control, material["user"]["id"])
        tokens = material["tokens"]
        return Person(control, email, material["user"]["id"], tokens["accessToken"], tokens["refreshToken"])

    return made


@pytest.fixture
async def ada(person: NewPerson) -> Person:
    """A member of acme."""
    return await person()


async def verify(control: Control, user_id: str) -> None:
    """The address of an account, without a mail."""
    async with control.checks.database.write() as connection:
        await user_store.verify_email(connection, await user_store.get_user(connection, user_id))


async def enrol(person: Person, password: str = PASSWORD) -> tuple[pyotp.TOTP, list[str]]:
    """Give somebody a second factor: the app, as another program has it, and the recovery codes. The code of now is not
    spent by it, as if he had confirmed it with the one before.
    """
    status, proposal, _ = await person.call("POST", "/auth/totp", {"password": password})
    assert status == 201, proposal
    app = pyotp.parse_uri(proposal["uri"])
    assert isinstance(app, pyotp.TOTP)
    status, confirmed, _ = await person.call("POST", "/auth/totp/confirm", {"code": app.now()})
    assert status == 200, confirmed
    async with person.control.checks.database.write() as connection:
        earlier = users.update().where(users.c.principal_id == person.id).values(totp_step=users.c.totp_step - 1)
        await connection.execute(earlier)
    return app, confirmed["recoveryCodes"]
