"""The shell lines of docs/webhooks.md run as they are printed; only the address is that of the test."""

import re
import shlex
import subprocess
from pathlib import Path

from .conftest import ROOT, Start, clean_environment, command


def lines() -> str:
    text = (ROOT / "docs/webhooks.md").read_text(encoding="utf-8")
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = start("up", data=data)
    ours = f'set -euo pipefail\nsluice() {{ {shlex.join(command())} "$@"; }}\n'
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines())
    environment = clean_environment(SLUICE_DATA=str(data))
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"event":"deploy.finished","changeEventsCreated":1,"issuesUpdated":0,"linksUpdated":0}' in done.stdout
    assert '"event":"ping","changeEventsCreated":0' in done.stdout
    assert '"attempts":2' in done.stdout
    assert f"{up.url}/webhooks/scm/github?hook=int_" in done.stdout
