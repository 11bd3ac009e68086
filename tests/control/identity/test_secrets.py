"""Nothing secret is stored, logged, counted or told in clear: everything is searched for all of it."""

import asyncio
import io
import re
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pyotp
import pytest
import sqlalchemy as sa

from chassis.db.database import migration_engine
from chassis.errors import Unauthorized
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol
from tests.logs import captured_log


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Every line of the log, down to the most talkative."""
    with captured_log("debug") as stream:
        yield stream


@pytest.mark.both_stores
async def test_secrets_are_never_stored_or_logged_in_plain_text(
    control: Control, person: NewPerson, migrated_url: str, tmp_path: Path, log: io.StringIO
) -> None:
    secrets, bodies = await everything(control, person)
    async with control.client.get("/metrics") as answer:
        metrics = await answer.read()
    searched = {
        "database": await asyncio.to_thread(stored, migrated_url),
        "files": files(tmp_path),
        "log": log.getvalue().encode(),
        "refusals and lists": bodies.encode(),
        "metrics": metrics,
        "audit": await exported_audit(control),
    }
    for name, content in searched.items():
        assert content, name
        for what, secret in secrets.items():
            assert secret not in content, f"{what} is in the {name}"


async def everything(control: Control, person: NewPerson) -> tuple[dict[str, bytes], str]:
    """Secrets of every kind, each used well and badly, and the answers that are not to hold them."""
    ada = await person()
    app, codes = await enrol(ada)
    accounts, of_accounts = await used_accounts(control, ada, app, codes)
    keys, of_keys = await used_keys(control, ada)
    channels, of_channels = await used_channels(control)
    tokens = {"first access token": ada.access, "first refresh token": ada.refresh}
    factor = {f"recovery code {number}": code for number, code in enumerate(codes)} | {"secret of the app": app.secret}
    secrets = {name: text.encode() for name, text in (accounts | keys | channels | tokens | factor).items()}
    return secrets | {"bytes of the app": pyotp.TOTP(app.secret).byte_secret()}, repr(
        of_accounts + of_keys + of_channels
    )


async def used_accounts(
    control: Control, ada: Person, app: pyotp.TOTP, codes: list[str]
) -> tuple[dict[str, str], list[Any]]:
    """Passwords, sessions, invitations."""
    new_password = "another horse battery"
    invited = {"email": "b@example.org", "role": "VIEWER"}
    _, invitation, _ = await control.call("POST", "/orgs/acme/invitations", invited)
    invite = {"inviteToken": invitation["inviteToken"], "name": "B", "password": "third horse battery"}
    change = {"current": PASSWORD, "password": new_password}
    refused = [
        await ada.login(totp=app.at(time.time() + 30)[::-1]),
        await ada.login(password="wrong horse battery"),
        await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh + "x"}),
        await control.call("POST", "/auth/invitations/accept", invite | {"name": 1}),
        await ada.call("POST", "/auth/password", change | {"current": "x"}),
    ]
    accepted = await good(control.call("POST", "/auth/invitations/accept", invite))
    refreshed = await good(control.call("POST", "/auth/refresh", {"refreshToken": accepted["tokens"]["refreshToken"]}))
    owing = await good(ada.login())
    await good(control.call("POST", "/auth/totp/verify", {"code": codes[1]}, owing["tokens"]["accessToken"]))
    shown = [
        await good(ada.call("PATCH", "/auth/user", {"theme": "dark"})),
        await ada.call("POST", "/auth/password", change),
    ]
    recovered = await good(ada.login(password=new_password, totp=codes[0]))
    left = {"refreshToken": recovered["tokens"]["refreshToken"]}
    shown += [await control.call("POST", "/auth/logout", left), await control.call("POST", "/auth/refresh", left)]
    secrets = {"password": PASSWORD, "new password": new_password, "password of b": invite["password"]}
    secrets |= {"invitation": invite["inviteToken"], "wrong password": "wrong horse battery"}
    for name, material in {"b": accepted, "b later": refreshed, "owing": owing, "recovered": recovered}.items():
        secrets[f"access token, {name}"] = material["tokens"]["accessToken"]
        secrets[f"refresh token, {name}"] = material["tokens"]["refreshToken"]
    return secrets, refused + shown


async def used_keys(control: Control, ada: Person) -> tuple[dict[str, str], list[Any]]:
    """Tokens and project keys."""
    token = (await good(control.call("POST", "/orgs/acme/tokens", {"name": "x"})))["token"]
    key = await good(control.call("POST", "/orgs/acme/projects/web/keys", {"name": "x"}))
    rotated = await good(control.call("POST", f"/orgs/acme/projects/web/keys/{key['id']}/rotate", {}))
    for secret in (key["key"], rotated["key"]):
        await control.checks.project_keys.check(legacy_auth=f"Legacy legacy_key={secret}")
    with pytest.raises(Unauthorized) as caught:
        await control.checks.project_keys.check(legacy_key=key["key"][::-1])
    shown = [
        await control.call("GET", f"/orgs/acme/{path}", token=token)
        for path in (
            "invitations",
            "members",
            "principals",
            "audit",
            "tokens",
            "projects/web/keys",
            "members/" + ada.id,
        )
    ]
    shown.append(await control.call("GET", f"/orgs/acme/tokens?legacy_key={key['key']}", token=token + "x"))
    secrets = {"personal access token": token, "token of the owner": control.acme.token.secret}
    return secrets | {"project key": key["key"], "rotated key": rotated["key"]}, [*shown, str(caught.value)]


async def used_channels(control: Control) -> tuple[dict[str, str], list[Any]]:
    """Configs of channels, with which something was to be sent."""
    secrets = {"signing secret": "whsec_" + "QUJD" * 8, "path of an address": "T0000/B0000/hush-hush"}
    secrets |= {"later secret": "whsec_" + "REVG" * 8, "routing key": "R0UT1NGKEYR0UT1NGKEYR0UT1NGKEY00"}
    url = f"https://hooks.example.invalid/{secrets['path of an address']}"
    channels, shown = "/orgs/acme/projects/web/notification-channels", []
    for kind, config in (
        ("webhook", {"url": url, "secret": secrets["signing secret"]}),
        ("pager", {"routingKey": secrets["routing key"]}),
    ):
        made = await good(control.call("POST", channels, {"name": kind, "kind": kind, "config": config}))
        shown.append(made)
        if kind == "webhook":  # whose address is nowhere
            shown.append(await control.call("POST", f"{channels}/{made['id']}/test"))
            change = {"config": {"url": url, "secret": secrets["later secret"]}}
            shown.append(await good(control.call("PATCH", f"{channels}/{made['id']}", change)))
            bad = {"name": "x", "kind": kind, "config": {"url": url, "secret": secrets["signing secret"] + "x"}}
            shown.append(await control.call("POST", channels, bad))
    shown += [await control.call("GET", channels), await control.call("GET", "/orgs/acme/deliveries")]
    return secrets, shown


async def good(call: Awaitable[tuple[int, Any, Any]]) -> Any:
    """What a request was answered that must work."""
    status, answer, _ = await call
    assert status in (200, 201), answer
    return answer


async def exported_audit(control: Control) -> bytes:
    headers = {"Authorization": f"Bearer {control.acme.token.secret}"}
    async with control.client.get("/orgs/acme/audit/export", headers=headers) as answer:
        assert answer.status == 200
        return await answer.read()


def files(directory: Path) -> bytes:
    """Keys are among them, and the database where it is a file."""
    return b"\0".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def stored(url: str) -> bytes:
    """Every value of every table, in one text."""
    engine = migration_engine(url)
    with engine.begin() as connection:
        found = sa.MetaData()
        found.reflect(connection)
        rows = [row for table in found.tables.values() for row in connection.execute(sa.select(table))]
    engine.dispose()
    return b"\0".join(
        bytes(part) if isinstance(part, bytes | memoryview) else str(part).encode() for row in rows for part in row
    )


def test_search_finds_plain_text_secrets(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a BLOB, b TEXT)")
        connection.exec_driver_sql("INSERT INTO t VALUES (X'00ff61', 'secret')")
    engine.dispose()
    assert re.search(rb"\x00\xffa\x00secret", stored(f"sqlite:///{tmp_path / 'x.db'}"))
