"""Nothing secret is stored, logged, counted or told in clear: everything is searched for all of it."""

import io
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyotp
import pytest
import sqlalchemy as sa
import structlog

from chassis.relational import migration_engine
from chassis.telemetry import configure_logging
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, enrol


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Every line of the log, down to the most talkative."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("debug", stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    structlog.reset_defaults()


async def test_secrets_are_nowhere_in_clear(
    control: Control, person: NewPerson, migrated_url: str, tmp_path: Path, log: io.StringIO
) -> None:
    secrets, bodies = await everything(control, person)
    async with control.client.get("/metrics") as answer:
        metrics = await answer.read()
    searched = {
        "database": stored(migrated_url),
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
    """Secrets of every kind, after they were used well and badly, and the answers that are not to hold them."""
    ada = await person()
    app, codes = await enrol(ada)
    new_password = "another horse battery"
    _, invitation, _ = await control.call("POST", "/orgs/acme/invitations", {"email": "b@b", "role": "VIEWER"})
    _, token, _ = await ada.call("POST", "/orgs/acme/tokens", {"name": "x"})
    _, key, _ = await control.call("POST", "/orgs/acme/projects/web/keys", {"name": "x"})
    _, rotated, _ = await control.call("POST", f"/orgs/acme/projects/web/keys/{key['id']}/rotate", {})
    answers = [
        await ada.login(totp=app.at(time.time() + 30)[::-1]),
        await ada.login(password="wrong horse battery"),
        await ada.call("POST", "/auth/password", {"current": PASSWORD, "password": new_password}),
        await control.call("GET", "/orgs/acme/tokens", token=token["token"] + "x"),
        await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh + "x"}),
        await control.call("POST", "/auth/invitations/accept", {"inviteToken": invitation["inviteToken"], "name": 1}),
        *[
            await control.call("GET", f"/orgs/acme/{path}")
            for path in ("invitations", "members", "principals", "audit")
        ],
        await ada.call("GET", "/orgs/acme/tokens"),
        await control.call("GET", "/orgs/acme/projects/web/keys"),
    ]
    _, refreshed, _ = await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh})
    tokens: dict[str, Any] = refreshed["tokens"]
    secrets = {
        "password": PASSWORD,
        "new password": new_password,
        "access token": tokens["accessToken"],
        "refresh token": ada.refresh,
        "next refresh token": tokens["refreshToken"],
        "personal access token": token["token"],
        "token of the owner": control.acme.token.secret,
        "invitation": invitation["inviteToken"],
        "project key": key["key"],
        "rotated key": rotated["key"],
        "recovery code": codes[0],
        "secret of the app": app.secret,
    }
    found = {name: secret.encode() for name, secret in secrets.items()}
    return found | {"bytes of the app": pyotp.TOTP(app.secret).byte_secret()}, repr(answers)


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


def test_the_search_would_find_what_is_there(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a BLOB, b TEXT)")
        connection.exec_driver_sql("INSERT INTO t VALUES (X'00ff61', 'secret')")
    engine.dispose()
    assert re.search(rb"\x00\xffa\x00secret", stored(f"sqlite:///{tmp_path / 'x.db'}"))
