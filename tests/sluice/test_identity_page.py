"""The shell lines of docs/identity.md run as they are printed; only the address is that of the test."""

import json
import re
import subprocess
from pathlib import Path

from .conftest import ROOT, Start, clean_environment, sluice


def lines() -> str:
    """Everything that the page has indented."""
    text = (ROOT / "docs/identity.md").read_text(encoding="utf-8")
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = {"SLUICE_DATA": str(data)}
    sluice("migrate", **settings)
    sluice("init", "--out", str(data / "bootstrap.json"), **settings)
    up = start("control", data=data)
    script = re.sub(r"http://127\.0\.0\.1:4318", up.url, "set -euo pipefail\n" + lines())
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    agent = json.loads((tmp_path / "agent.json").read_text())
    token = json.loads((tmp_path / "token.json").read_text())
    assert token["actChain"] == [agent["principalId"]]
    assert token["onBehalfOfPrincipalId"] == agent["ownerPrincipalId"]
