"""The ClickHouse users that operators are given. The embedded engine makes no users, but it reads the statements."""

import re
from pathlib import Path

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits

pytestmark = pytest.mark.both_stores

ROOT = Path(__file__).parents[2]
USERS = ROOT / "deploy/clickhouse/users.sql"


@pytest.fixture
async def statements(clickhouse: ClickHouse) -> list[str]:
    """Each statement as ClickHouse writes it, on one line."""
    text = re.sub(r"--[^\n]*", "", USERS.read_text("utf-8"))
    found = []
    for statement in filter(None, map(str.strip, text.split(";"))):
        sql = "SELECT formatQuerySingleLine({statement:String})"
        ((line,),) = await clickhouse.query(sql, {"statement": statement}, limits=QueryLimits())
        found.append(str(line))
    return found


async def test_clickhouse_can_read_them(statements: list[str]) -> None:
    kinds = [re.match(r"(CREATE (?:DATABASE|ROLE|SETTINGS PROFILE|USER)|GRANT)", each) for each in statements]
    assert all(kinds)
    assert len(statements) == 17


async def test_the_query_service_may_only_read(statements: list[str]) -> None:
    assert [each for each in statements if each.startswith("GRANT") and each.endswith("TO sluice_reader")] == [
        "GRANT SELECT ON sluice.* TO sluice_reader",
        "GRANT SELECT ON system.processes TO sluice_reader",
    ]
    assert [each for each in statements if each.endswith("TO sluice_query")] == ["GRANT sluice_reader TO sluice_query"]
    (profile,) = [each for each in statements if each.startswith("CREATE SETTINGS PROFILE")]
    assert "readonly = 2," in profile
    assert profile.endswith("TO sluice_reader")


def test_no_password_is_one_to_keep() -> None:
    assert set(re.findall(r"BY '([^']*)'", USERS.read_text("utf-8"))) == {f"replace-this-{n}" for n in (1, 2, 3)}
