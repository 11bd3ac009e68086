"""`sluice billing`, and the lines of docs/billing.md, which run as they are printed but for the address."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.db.database import Database
from control.audit.tables import audit_events
from sluice.main import main
from tests.chassis.auth.tenants import new_tenant

from .conftest import ROOT, Start, clean_environment, command


def settings_and_lines() -> tuple[str, str]:
    """The settings, which are the first indented block of the page, and the shell lines of the others."""
    text = (ROOT / "docs/billing.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE)
    return textwrap.dedent(first), "".join(textwrap.dedent(one) for one in others)


@pytest.mark.long
def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    data, settings = tmp_path / "data", tmp_path / "sluice.toml"
    toml, lines = settings_and_lines()
    settings.write_text(toml, encoding="utf-8")
    up = start("up", data=data, SLUICE_CONFIG=str(settings))
    ours = f'set -euo pipefail\nsluice() {{ {shlex.join(command())} "$@"; }}\n'
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines)
    environment = clean_environment(SLUICE_DATA=str(data))
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"handled":true,"duplicate":false,"reason":null' in done.stdout
    assert "default: customer cus_REPLACE_WITH_ITS_ID, Team (active); 5000000 items per month." in done.stdout


def test_a_customer_is_named_and_removed(
    tmp_path: Path, migrated_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(migrated_file, tmp_path / "sluice.db")
    url = f"sqlite:///{tmp_path / 'sluice.db'}"
    asyncio.run(add_organizations(url))
    monkeypatch.setenv("SLUICE_DATABASE_URL", url)
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path / "data"))

    def billing(*arguments: str) -> tuple[int, str, str]:
        code = main(["billing", *arguments])
        return code, *capsys.readouterr()

    named = "acme: customer cus_1, without a subscription so far; no quota.\n"
    assert billing("--org", "acme", "--customer", "cus_1") == (0, named, "")
    assert billing("--org", "acme") == (0, named, "")
    code, _, error = billing("--org", "globex", "--customer", "cus_1")
    assert (code, "The customer cus_1 belongs to another organization." in error) == (1, True)
    code, _, error = billing("--org", "initech")
    assert (code, "There is no organization initech." in error) == (1, True)
    code, shown, _ = billing("--org", "acme", "--unlink", "--json")
    assert code == 0
    assert json.loads(shown) == {
        "orgSlug": "acme",
        "customerId": None,
        "subscriptionId": None,
        "plan": None,
        "status": None,
        "monthlyItems": 0,
        "currentPeriodEnd": None,
    }
    assert billing("--org", "globex", "--customer", "cus_1")[0] == 0
    with pytest.raises(SystemExit, match="2"):
        main(["billing", "--customer", "a b"])
    assert asyncio.run(load_links(url)) == [
        {"customerId": "cus_1", "before": None},
        {"customerId": None, "before": "cus_1"},
        {"customerId": "cus_1", "before": None},
    ]


async def add_organizations(url: str) -> None:
    database = Database(url)
    await database.start()
    for slug in ("acme", "globex"):
        await new_tenant(database, slug)
    await database.close()


async def load_links(url: str) -> list[Any]:
    """What the audit log has of them, oldest first."""
    database = Database(url)
    await database.start()
    found = sa.select(audit_events.c.data).where(audit_events.c.action == "subscription.link")
    async with database.read() as connection:
        data = (await connection.scalars(found.order_by(sa.text("rowid")))).all()
    await database.close()
    return [json.loads(one) for one in data]
