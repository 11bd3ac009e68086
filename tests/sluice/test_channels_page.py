"""The shell lines of docs/channels.md run as they are printed; only the address is that of the test."""

import json
import re
import shlex
import subprocess
from pathlib import Path

from .conftest import ROOT, Start, clean_environment, command, sluice


def lines() -> str:
    """Everything that the page has indented, but for what a receiver sees and does."""
    text = (ROOT / "docs/channels.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("## What a webhook gets")
    text = before + rest.partition("## What becomes of a delivery")[2]
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path, migrated: Path) -> None:
    settings = {"SLUICE_DATA": str(migrated)}
    sluice("init", "--out", str(migrated / "bootstrap.json"), **settings)
    up = start("control", data=migrated)
    ours = f'set -euo pipefail\nsluice() {{ {shlex.join(command())} "$@"; }}\n'
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines())
    environment = clean_environment(**settings)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tested,) = json.loads((tmp_path / "deliveries.json").read_text())["data"]
    assert (tested["type"], tested["state"]) == ("channel.test", "DEAD")
    assert re.search(r"Secrets re-encrypted with key [0-9a-f]+: 1\.", done.stdout)
