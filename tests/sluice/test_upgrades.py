"""A data directory that an earlier release has written starts, is migrated, and reads back whole.

There is one for each state of the two schemas (`upgrades/make.py` writes them): `data.tar.xz` is the directory without
its keys, `answers.json` has what that release answered.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from chassis.clickhouse.migrations import migrations
from tests.databases import REVISIONS
from tests.e2e.product import Service, call, run
from tests.sluice.upgrades.make import ENVIRONMENT

KEPT = Path(__file__).parent / "upgrades"
DIRECTORIES = sorted(path.parent.name for path in KEPT.glob("*/data.tar.xz"))


def test_every_earlier_schema_has_a_directory() -> None:
    states = {tuple(map(int, name.split("-")[1::2])) for name in DIRECTORIES}
    clickhouse, relational = len(migrations()), int(REVISIONS[-1])
    assert {version for version, _ in states} >= set(range(1, clickhouse))
    assert all(version <= clickhouse and revision <= relational for version, revision in states)


def as_then(answer: Any, then: Any) -> Any:
    """An answer with the fields that it had then. Cursors are signed with a key that was not kept."""
    if isinstance(then, dict) and isinstance(answer, dict):
        return {key: None if key == "nextCursor" else as_then(answer.get(key), value) for key, value in then.items()}
    if isinstance(then, list) and isinstance(answer, list) and len(then) == len(answer):
        return [as_then(*both) for both in zip(answer, then, strict=True)]
    return answer


@pytest.mark.parametrize("name", DIRECTORIES)
def test_what_an_earlier_release_stored_is_read_back_whole(tmp_path: Path, name: str) -> None:
    answers: dict[str, Any] = json.loads((KEPT / name / "answers.json").read_text())
    data = tmp_path / "data"
    with tarfile.open(KEPT / name / "data.tar.xz") as archive:
        archive.extractall(data, filter="data")
    service = Service("up", data, tmp_path / "log", ENVIRONMENT)
    service.start()
    try:
        run("owner", "--org", "default", "--data", str(data), environment=ENVIRONMENT)  # after the migration
        token = json.loads((data / "owner-default.json").read_text())["accessToken"]
        for asked, then in answers.items():
            path, _, body = asked.partition(" ")
            whole = path if path.startswith("/orgs/") else f"/orgs/default/projects/default/explore{path}"
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            answer = call("POST" if body else "GET", f"{service.url}{whole}", body.encode() or None, headers)
            assert answer.status == 200, (asked, answer.body)
            assert as_then(answer.json(), then) == as_then(then, then), asked
    finally:
        service.stop()
