"""The shell lines of docs/releases.md run as they are printed, in a git checkout; only the address is the test's."""

import json
import re
import shlex
import subprocess
from pathlib import Path

from .conftest import ROOT, Start, clean_environment, command

COMMIT = "git -c user.name=Ada -c user.email=ada@example.com commit -q --allow-empty"


def lines() -> str:
    """Those of the page, without what it shows as answers."""
    text = re.sub(r"(?s)```.*?```", "", (ROOT / "docs/releases.md").read_text(encoding="utf-8"))
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = start("up", data=data)
    ours = f"""set -euo pipefail
sluice() {{ {shlex.join(command())} "$@"; }}
git init -q . && {COMMIT} -m first && git tag 1.3.2 && {COMMIT} -m second
sluice send > sent
token=$(sed -n 's/.*"accessToken": *"\\([^"]*\\).*/\\1/p' data/bootstrap.json)
until curl -sS -H "Authorization: Bearer $token" {up.url}/orgs/default/projects/default/issues | grep -q iss_
do sleep 0.2; done
"""
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines())
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=clean_environment(SLUICE_DATA=str(data)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"version": "1.4.0"' in done.stdout  # of the dry run
    report = json.loads((tmp_path / "release.json").read_text())
    assert (report["version"], report["commitsUpserted"]) == ("1.4.0", 1)
    assert '"kind":"flag"' in done.stdout
    assert '"firstBadRelease":' in done.stdout
    assert '"externalId":"shop/checkout#17"' in done.stdout
