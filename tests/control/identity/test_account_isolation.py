"""What is one's own stays one's own: codes, rights to invite, workers, and what one has in another organization."""

import pytest
from argon2 import PasswordHasher, extract_parameters

from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol

INVITATIONS = "/orgs/acme/invitations"
MEMBERS = "/orgs/acme/members"


async def test_recovery_code_is_valid_for_its_own_account_only(person: NewPerson) -> None:
    ada, bob = await person(), await person("bob@example.org")
    _, of_ada = await enrol(ada)
    await enrol(bob)
    assert (await bob.login(totp=of_ada[0]))[0] == 401
    assert (await ada.login(totp=of_ada[0]))[0] == 200, "and is not spent by who tries it elsewhere"


async def test_read_scope_does_not_permit_retiring_an_agent(control: Control, ada: Person) -> None:
    _, agent, _ = await ada.call("POST", "/orgs/acme/principals", {"kind": "agent", "name": "x"})
    path = f"/orgs/acme/principals/{agent['principalId']}"
    scopes = frozenset({Scope.TOKENS_WRITE, Scope.MEMBERS_READ})
    _, reader = await new_member_token(control.checks.database, control.acme, Role.ADMIN, scopes)
    assert (await control.call("GET", path, token=reader))[0] == 200
    assert (await control.call("DELETE", path, token=reader))[0] == 403
    assert (await control.call("GET", path))[0] == 200


async def test_removal_keeps_credentials_of_other_organizations(control: Control, person: NewPerson) -> None:
    ada, elsewhere = await person(verified=True), await person(org="globex", existing=True)
    assert ada.id == elsewhere.id
    _, here, _ = await ada.call("POST", "/orgs/acme/tokens", {"name": "x"})
    _, there, _ = await elsewhere.call("POST", "/orgs/globex/tokens", {"name": "x"})
    assert (await control.call("DELETE", f"{MEMBERS}/{ada.id}"))[0] == 204
    for token, org, expected in (
        (ada.access, "acme", 401),
        (here["token"], "acme", 401),
        (elsewhere.access, "globex", 200),
        (there["token"], "globex", 200),
    ):
        assert (await control.call("GET", f"/orgs/{org}/projects", token=token))[0] == expected
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": elsewhere.refresh}))[0] == 200


async def test_login_takes_as_long_for_an_unknown_account(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, compute, computed = await person(), PasswordHasher.hash, []

    def recording_hash(self: PasswordHasher, password: str, *, salt: bytes) -> str:
        computed.append(compute(self, password, salt=salt))
        return computed[-1]

    monkeypatch.setattr(PasswordHasher, "hash", recording_hash)
    for email, password in ((ada.email, "another password"), ("eve@example.org", PASSWORD)):
        assert (await control.call("POST", "/auth/login", {"email": email, "password": password}))[0] == 401
    known, unknown = computed
    assert known != unknown
    assert extract_parameters(known) == extract_parameters(unknown)
