"""The shell lines of docs/approvals.md run as they are printed; only the address is that of the test."""

import json
import re
import shlex
import subprocess
from pathlib import Path

from .conftest import ROOT, Start, clean_environment, command, sluice


def lines() -> str:
    """Everything that the page has indented."""
    text = (ROOT / "docs/approvals.md").read_text(encoding="utf-8")
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path, migrated: Path) -> None:
    settings = {"SLUICE_DATA": str(migrated)}
    sluice("init", "--out", str(migrated / "bootstrap.json"), **settings)
    up = start("control", data=migrated)
    ours = f'set -euo pipefail\nsluice() {{ {shlex.join(command())} "$@"; }}\n'
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines())
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status":"APPROVED"' in done.stdout
    assert re.search(r"org_[0-9a-z]+: [0-9]+ events verified; keep for --noted: [0-9]+:[0-9a-f]{64}\n", done.stdout)
    actions = [json.loads(line)["action"] for line in (tmp_path / "audit.ndjson").read_text().splitlines()]
    expected = ["approval_request.create", "approval_request.vote", "approval_request.approve", "policy.create"]
    assert [one for one in actions if one in expected] == expected
