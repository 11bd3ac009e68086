"""Every committed input goes through its targets once, without sanitizers: what was found stays mended.

`python -m tests.fuzz` looks for more (docs/fuzzing.md).
"""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from chassis.clickhouse import ClickHouse
from tests.fuzz.run import CORPUS
from tests.fuzz.targets import TARGETS, filters_engine


def check_of(name: str) -> Callable[[bytes], None]:
    check: Callable[[bytes], None] = importlib.import_module(f"tests.fuzz.targets.{TARGETS[name].module}").check
    return check


def inputs(name: str) -> list[Path]:
    return sorted((CORPUS / TARGETS[name].corpus).iterdir())


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "filters_engine"])
def test_every_known_input_passes(name: str) -> None:
    check = check_of(name)
    paths = inputs(name)
    assert paths
    for path in paths:
        try:
            check(path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{name}: {path}") from error


# What statements mean, not how they are sent: both engines are one program.
@pytest.mark.parametrize("clickhouse_url", ["embedded"], indirect=True)
async def test_the_engine_takes_what_known_filters_make(clickhouse: ClickHouse) -> None:
    for path in inputs("filters_engine"):
        for query in filters_engine.queries(path.read_bytes()):
            await filters_engine.check_query(clickhouse, query)


def test_every_corpus_has_its_target_and_is_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} == {target.corpus for target in TARGETS.values()}
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 10**6
