"""docs/warehouse.md from the sink to the query, as it is printed; only addresses and ids are the test's."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import duckdb

from tests.e2e.object_store import object_store

from .conftest import ROOT, Start, clean_environment, command

PAGE = (ROOT / "docs/warehouse.md").read_text(encoding="utf-8")


def test_the_page_can_be_followed(start: Start, tmp_path: Path) -> None:
    shell, query = re.findall(r"(?m)(?:^    .*\n)+", section("From a sink to a query"))[:-1], lines()[-1]
    assert query.startswith("SELECT")
    settings = {"SLUICE_CONTROL_EGRESS_ALLOW": "127.0.0.0/8", "SLUICE_CONTROL_EGRESS_HTTP": "true"}
    up = start("up", data=tmp_path / "data", **settings)
    token = up.credentials()["accessToken"]
    with object_store("my-bucket") as store:
        made = "".join(shell[:1]).replace('"bucket":', f'"endpoint": "{store.url}", "pathStyle": true, "bucket":')
        ours = f"set -euo pipefail\ntoken={token} sluice={up.url}\n"
        sink = json.loads(run(ours + made, tmp_path))
        assert sink["configured"] is True
        run(f"{shlex.join(command())} send", tmp_path)
        asked = re.findall(r"(?m)^ *(call\(\).*)$", PAGE)[0] + f"\nsink={sink['id']}\n" + "".join(shell[1:])
        keys, answers = list[str](), list[dict[str, Any]]()
        while not any("/error_essences/" in key for key in keys):
            answers = [json.loads(line) for line in run(ours + asked, tmp_path).splitlines()]
            assert {one["status"] for one in answers[0]["runs"]} == {"SUCCEEDED"}
            keys = store.list_keys()
        assert answers[1]["sink"] == sink
        for key in keys:
            (tmp_path / "my-bucket" / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "my-bucket" / key).write_bytes(store.read(key))
    assert duckdb.sql(query.replace("s3://", f"{tmp_path}/")).fetchall()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def lines() -> list[str]:
    return [line[4:] for line in section("From a sink to a query").splitlines() if line.startswith("    ")]


def run(script: str, directory: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", re.sub(r"(?m)^    ", "", script)],
        cwd=directory,
        env=clean_environment(SLUICE_DATA=str(directory / "data")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_errors_of_runs_are_those_of_the_code() -> None:
    """Each message of the table is in the code, up to its `...`."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "control/export").rglob("*.py"))
    code = re.sub(r'"\n\s*f?"', "", code)  # join the lines of a message
    rows = [row for row in section("When a run fails").splitlines() if row.startswith("| `")]
    shown = [sentence for row in rows for sentence in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(shown) > 7
    assert [sentence for sentence in shown if sentence.removesuffix(" ...") not in code] == []
