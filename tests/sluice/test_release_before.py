"""A data directory that the release before has written starts, migrates, and reads back whole.

`release_before/data.tar.xz` is one, without its keys; `answers.json` has what that release answered.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Service, call, run

KEPT = Path(__file__).parent / "release_before"
ENVIRONMENT = {"SLUICE_RETENTION_DAYS": "0"}  # what is kept gets older


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((KEPT / "answers.json").read_text())
    return kept


def without_ids(answer: Any) -> Any:
    """Cursors are signed with a key that was not kept."""
    return {**answer, "nextCursor": None} if isinstance(answer, dict) and "nextCursor" in answer else answer


def test_what_the_release_before_stored_is_read_back_whole(tmp_path: Path, answers: dict[str, Any]) -> None:
    data = tmp_path / "data"
    with tarfile.open(KEPT / "data.tar.xz") as archive:
        archive.extractall(data, filter="data")
    service = Service("up", data, tmp_path / "log", ENVIRONMENT)
    service.start()
    try:
        run("owner", "--org", "default", "--data", str(data), environment=ENVIRONMENT)  # after the migration
        token = json.loads((data / "owner-default.json").read_text())["accessToken"]
        for asked, expected in answers.items():
            path, _, body = asked.partition(" ")
            answer = call(
                "POST" if body else "GET",
                f"{service.url}/orgs/default/projects/default/explore{path}",
                body.encode() or None,
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            assert answer.status == 200, (asked, answer.body)
            assert without_ids(answer.json()) == without_ids(expected), asked
    finally:
        service.stop()
