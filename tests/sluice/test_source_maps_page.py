"""The shell lines of docs/source-maps.md run as they are printed; only the address is the test's."""

import json
import re
import shlex
import subprocess
import time
from pathlib import Path

from tests.programs import esbuild, program

from .conftest import DEADLINE_S, ROOT, Start, clean_environment, command


def lines() -> str:
    text = (ROOT / "docs/source-maps.md").read_text(encoding="utf-8")
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = start("up", data=data)
    node = shlex.quote(program("node"))
    ours = f"""set -euo pipefail
sluice() {{ {shlex.join(command())} "$@"; }}
node() {{ {node} "$@"; }}
npx() {{ shift 2; {node} {shlex.quote(str(esbuild()))} "$@"; }}
"""
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines())
    script = script.replace(
        "sluice sourcemaps upload shop/dist", f"sluice sourcemaps upload shop/dist --server {up.url}"
    )
    script += "\nsluice sourcemaps upload shop/dist --release 1.4.0 --project default" + f" --server {up.url}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=clean_environment(SLUICE_DATA=str(data)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Stored 1 source map for release 1.4.0.\n" in done.stdout
    assert "Stored 0 source maps for release 1.4.0, 1 was already stored.\n" in done.stdout
    (event,) = json.loads((tmp_path / "span.json").read_text())["events"]
    first, second, third, *_ = event["resolvedStacktrace"].split("\n")
    assert (first, second, third) == (
        "RangeError: price of apple is negative",
        "    at addLine (src/cart.ts:2:24)",
        "    at src/cart.ts:5:3",
    )
    token, deadline = up.credentials()["accessToken"], time.monotonic() + DEADLINE_S
    while not (issues := up.get("/orgs/default/projects/default/issues", token)[1]["data"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert [(one["title"], one["culprit"]) for one in issues] == [(first, "src/cart.ts:addLine")]
    assert "https://shop.example/assets/cart-" in event["attributes"]["exception.stacktrace"]
