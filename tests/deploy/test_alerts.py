"""The alert rules: Prometheus can read them, and they ask for nothing that a process does not tell."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.deploy.promql import named

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy/prometheus/alerts.yml"
DURATION: Final = re.compile(r"(\d+(ms|[smhdwy]))+")
LABEL: Final = re.compile(r"\$labels\.(\w+)")


class Annotations(msgspec.Struct, forbid_unknown_fields=True):
    """What a person is told."""

    summary: str
    runbook: str


class Rule(msgspec.Struct, forbid_unknown_fields=True, rename={"for_": "for"}):
    """As Prometheus reads it: an unknown field is an error there."""

    alert: str
    expr: str
    labels: dict[str, str]
    annotations: Annotations
    for_: str = "0s"


class Group(msgspec.Struct, forbid_unknown_fields=True):
    """Rules that are evaluated together."""

    name: str
    rules: list[Rule]


class File(msgspec.Struct, forbid_unknown_fields=True):
    """A file of rules."""

    groups: list[Group]


GROUPS: Final = msgspec.yaml.decode(RULES.read_bytes(), type=File).groups
ALL: Final = [rule for group in GROUPS for rule in group.rules]


@pytest.mark.parametrize("rule", ALL, ids=[rule.alert for rule in ALL])
def test_a_rule_asks_for_what_a_gateway_tells(rule: Rule, exposed: Mapping[str, frozenset[str]]) -> None:
    metrics = named(rule.expr)
    assert metrics
    for metric, labels in metrics:
        assert labels <= exposed[metric], metric
    told = frozenset[str]().union(*(exposed[metric] for metric, _ in metrics))
    assert set(LABEL.findall(rule.annotations.summary)) <= told
    assert DURATION.fullmatch(rule.for_)
    assert rule.labels.keys() == {"severity"}
    assert rule.labels["severity"] in {"warning", "critical"}


def test_names_are_said_once_and_each_has_its_section_in_the_operations_page() -> None:
    names = [rule.alert for rule in ALL]
    assert len(set(names)) == len(names)
    assert len({group.name for group in GROUPS}) == len(GROUPS)
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert re.findall(r"^`(Sluice\w+)`: ", page, re.MULTILINE) == names
