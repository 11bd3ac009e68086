"""A session that ends while the body of a request is on its way changes nothing of its account any more."""

from datetime import UTC, datetime
from typing import Final

from chassis.auth.tables import sessions as sessions_table
from control.identity import session_repository, user_repository
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol
from tests.control.test_rights_meanwhile import CHANGES as CHANGES_WITH_A_TOKEN
from tests.control.test_rights_meanwhile import sent_slowly

CHANGES: Final[dict[str, tuple[str, str, object]]] = {
    "account": ("PATCH", "/auth/user", {"name": "Eve"}),
    "password": ("POST", "/auth/password", {"current": PASSWORD, "password": "another horse battery"}),
    "proposal": ("POST", "/auth/totp", {"password": PASSWORD}),
}


async def test_session_ended_during_the_request_changes_nothing(control: Control, person: NewPerson) -> None:
    """By another process, of which this one has not heard."""
    for number, (name, change) in enumerate(CHANGES.items()):
        ada = await person(f"ada{number}@example.org")

        async def end(ada: Person = ada) -> None:
            async with control.checks.database.write() as connection:
                await session_repository.end_all(connection, ada.id, datetime.now(UTC))

        assert await sent_slowly(control, ada.access, change, end) == 401, name
        assert (await ada.login())[1]["user"]["name"] == f"Ada{number}", "and the password is the one of before"


async def test_session_ended_while_a_code_is_sent_consumes_nothing(control: Control, person: NewPerson) -> None:
    async def end() -> None:
        await control.execute(sessions_table.update().values(revoked_at=datetime.now(UTC)))

    for path in ("confirm", "verify", "disable"):
        ada = await person(f"{path}@example.org")
        app, codes = await enrol(ada)
        if path == "confirm":
            async with control.checks.database.write() as connection:
                await user_repository.remove_factor(connection, ada.id)
            app.secret = (await ada.call("POST", "/auth/totp", {"password": PASSWORD}))[1]["secret"]
        access = (await ada.login())[1]["tokens"]["accessToken"]
        body = {"code": app.now() if path == "confirm" else codes[0]}
        if path == "disable":
            access, body = ada.access, body | {"password": PASSWORD}
        assert await sent_slowly(control, access, ("POST", f"/auth/totp/{path}", body), end) == 401
        status, material, _ = await ada.login(**({} if path == "confirm" else {"totp": codes[0]}))
        assert (status, material["user"]["mfaEnabled"]) == (200, path != "confirm"), "and the code is not spent"


async def test_factor_enabled_during_the_request_is_required(control: Control, person: NewPerson) -> None:
    for number, change in enumerate((CHANGES["account"], CHANGES_WITH_A_TOKEN["token"])):
        ada = await person(f"ada{number}@example.org")

        async def set_up(ada: Person = ada) -> None:
            async with control.checks.database.write() as connection:
                await user_repository.enroll_factor(connection, ada.id, b"sealed")
                await user_repository.confirm_factor(connection, ada.id, 1, datetime.now(UTC))

        assert await sent_slowly(control, ada.access, change, set_up) == 401
