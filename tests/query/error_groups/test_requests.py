"""Who may ask for errors, what a failing store looks like, and texts that are data."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse, QueryLimits, QueryTimeout, QueryTooLarge, StoreRejected, StoreUnavailable
from chassis.http.validation import Issues
from query import sql
from query.fields import ERRORS
from query.request.filters import Filter, Op, condition
from query.settings import QuerySettings
from query.statements import ErrorFacets, ErrorOrder, ErrorRanking
from tests.query.conftest import NOW, ONE_ENGINE, OTHER_PROJECT, PATH, Explore, served
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint
from tests.query.error_groups.statements import PRINT, WINDOW
from tests.selection import scaled

PLACED = Raised(batch=2**62)
ONE = f"/errors/{fingerprint(1)}"
ENDPOINTS = {
    "groups": "/errors",
    "one group": ONE,
    "occurrences": f"{ONE}/occurrences",
    "one occurrence": f"{ONE}/occurrences/{PLACED.id}",
}
BAD = {"limit": "0", "filters": "[", "logs": "0"}


@pytest.mark.parametrize("path", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_every_endpoint_is_guarded_before_it_looks_at_the_request(
    path: str, occurrences: Occurrences, explore: Explore
) -> None:
    await occurrences.store(PLACED)
    answers = [
        await explore.get(path, token="nobody", **BAD),
        await explore.get(path, base="/orgs/evil/projects/shop/explore", **BAD),
        await explore.get(path, base="/orgs/acme/projects/none/explore", **BAD),
        await explore.get(path, token="blind", **BAD),
        await explore.get(path, **BAD),
        await explore.get(path),
    ]
    assert [answer.status for answer in answers] == [401, 404, 404, 403, 400, 200]
    async with explore.client.post(PATH + path, headers={"Authorization": "Bearer mine"}) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


class Failing(ClickHouse):
    """A store that fails."""

    def __init__(self, failure: Exception) -> None:
        super().__init__("http://127.0.0.1:9/none")
        self._failure = failure

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> list[tuple[Any, ...]]:
        assert all(f"{{{name}:" in sql for name in parameters)
        assert limits.max_seconds
        raise self._failure


@pytest.mark.parametrize("path", ENDPOINTS.values(), ids=ENDPOINTS)
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (StoreUnavailable("secret host is away"), 503),
        (QueryTimeout("secret", 159), 503),
        (QueryTooLarge("secret", 241), 400),
        (StoreRejected("secret syntax", 62), 500),
    ],
)
async def test_what_a_failing_store_looks_like(path: str, failure: Exception, status: int) -> None:
    async with served(Failing(failure), QuerySettings(), [NOW]) as client:
        answer = await client.get(path)
    assert answer.status == status
    assert "secret" not in answer.text


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


TEXTS = st.text(min_size=1, max_size=40) | st.sampled_from(HOSTILE)


@given(st.sampled_from([*ERRORS.fields]) | TEXTS, st.sampled_from(Op), st.lists(TEXTS, min_size=1, max_size=3))
def test_no_text_of_a_request_reaches_the_statement(key: str, op: Op, values: list[str]) -> None:
    issues = Issues()
    test = condition(Filter(key, op, tuple(values)), ERRORS, NOW, "p", issues)
    if test is None:
        assert len(issues)
        return
    assert key in ERRORS.fields
    statements = (
        ErrorRanking(project_id=7, window=WINDOW, conditions=(test,), order=ErrorOrder.COUNT, limit=2),
        ErrorFacets(project_id=7, window=WINDOW, conditions=(test,), fingerprints=(PRINT,), limit=2),
    )
    for statement in statements:
        query = sql.emit(statement)
        where = query.sql.split("WHERE ", 1)[1]
        assert where.startswith("project_id = {p0:UInt64}\n")
        assert query.parameters["p0"] == 7
        vocabulary = re.sub(r"\{p\d+:[A-Za-z0-9()]+\}", "", query.sql)
        assert set(re.findall(r"'([^']*)'", vocabulary)) <= {"UTC", "", " ", "T", "Z"}
        assert not set(vocabulary) - set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_()[]=<>!+-%.,' \n"
        )
