"""Texts of errors that others take for SQL are data here."""

import json

import pytest

from tests.query.conftest import ONE_ENGINE, OTHER_PROJECT, Explore
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint
from tests.selection import scaled

HOSTILE = ["'", "\\", '"', "%_%", "\0", "\\N", "\n", "😀", "{p0:UInt64}", "; DROP TABLE logs", "') OR (1=1", "*/", "--"]


@ONE_ENGINE
@pytest.mark.sized
async def test_hostile_texts_are_data(occurrences: Occurrences, explore: Explore) -> None:
    raised = [
        Raised(n + 1, type=text, message=text, service=text, release=text, environment=text)
        for n, text in enumerate(HOSTILE)
    ]
    await occurrences.store(*raised)
    await occurrences.store(*raised, project=OTHER_PROJECT)
    keys = ("type", "message", "serviceName", "release", "environment")
    for n, text in enumerate(HOSTILE):
        for key in scaled((keys[n % len(keys)],), keys):
            filters = json.dumps([{"key": key, "op": "eq", "value": text}])
            (found,) = await explore.data("/errors", filters=filters)
            assert (found["fingerprint"], found["count"], found["message"]) == (fingerprint(n + 1), 1, text)
            assert [each["release"] for each in found["releases"]] == [text]
    assert len(await explore.data("/errors")) == len(HOSTILE)
