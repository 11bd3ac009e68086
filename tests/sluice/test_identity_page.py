"""The shell lines of docs/identity.md run as they are printed; only the address is that of the test."""

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.mail import Office, serving

from .conftest import ROOT, Start, clean_environment, sluice


@pytest.fixture
def office() -> Iterator[Office]:
    """A mail server in a thread of its own."""
    office, loop, started, ended = Office(), asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(office):
            started.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait()
    yield office
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


def lines() -> str:
    """Everything that the page has indented."""
    text = (ROOT / "docs/identity.md").read_text(encoding="utf-8")
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path, office: Office, migrated: Path) -> None:
    settings = {"SLUICE_DATA": str(migrated)}
    sluice("init", "--out", str(migrated / "bootstrap.json"), **settings)
    mail = {"SLUICE_CONTROL_SMTP_URL": f"smtp://127.0.0.1:{office.port}", "SLUICE_CONTROL_SMTP_ALLOW": "127.0.0.0/8"}
    up = start("control", data=migrated, **mail)
    script = re.sub(r"http://127\.0\.0\.1:4318", up.url, "set -euo pipefail\n" + lines())
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    agent = json.loads((tmp_path / "agent.json").read_text())
    token = json.loads((tmp_path / "token.json").read_text())
    assert token["actChain"] == [agent["principalId"]]
    assert token["onBehalfOfPrincipalId"] == agent["ownerPrincipalId"]
    assert [envelope.rcpt_tos for envelope in office.taken] == [["grace@example.org"], ["ada@example.org"]]
    status, page = up.get("/orgs/default/members", up.credentials()["accessToken"])
    alan = [
        (member["name"], member["emailVerified"]) for member in page["data"] if member["email"] == "alan@example.org"
    ]
    assert (status, alan) == (200, [("Alan", False)])
