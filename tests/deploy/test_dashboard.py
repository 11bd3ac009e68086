"""The Grafana dashboard asks for nothing that a process does not tell, and shows each panel in a place of its own."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.promql import named

FILE: Final = Path(__file__).parents[2] / "deploy/grafana/sluice-gateway.json"
DASHBOARD: Final[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
PANELS: Final[list[dict[str, Any]]] = DASHBOARD["panels"]
CHARTS: Final = [panel for panel in PANELS if panel["type"] != "row"]
VARIABLES: Final = {"$__rate_interval": "5m", "$instance": ".*"}
IN_LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")


@pytest.mark.parametrize("panel", CHARTS, ids=[panel["title"] for panel in CHARTS])
def test_a_panel_asks_for_what_a_gateway_tells(panel: dict[str, Any], exposed: Mapping[str, frozenset[str]]) -> None:
    assert panel["targets"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        expression = target["expr"]
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        assert "$" not in expression
        metrics = named(expression)
        for metric, labels in metrics:
            assert labels <= exposed[metric], metric
            assert "instance" in labels, metric
        told = frozenset[str]().union(*(exposed[metric] for metric, _ in metrics))
        assert set(IN_LEGEND.findall(target["legendFormat"])) <= told


def test_variables_are_those_that_panels_use() -> None:
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "instance"]
    query = DASHBOARD["templating"]["list"][1]["query"]
    assert query == "label_values(sluice_build_info, instance)"


def test_panels_have_a_place_and_a_name_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for key in ("id", "title"):
        values = [panel[key] for panel in PANELS]
        assert len(set(values)) == len(values)


def test_every_metric_that_an_operator_needs_is_shown(exposed: Mapping[str, frozenset[str]]) -> None:
    text = FILE.read_text(encoding="utf-8")
    ours = ("sluice_gateway_", "sluice_deliver")
    gateways = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed if name.startswith(ours)}
    assert {name for name in gateways if name not in text} <= NOT_SHOWN


# Details to look up at /metrics when something else has shown that they matter.
NOT_SHOWN: Final = {
    "sluice_gateway_exceptions_over_limit_total",
    "sluice_gateway_inflight_items",
    "sluice_gateway_quota_failures_total",
    "sluice_gateway_quota_left_items_total",
    "sluice_gateway_redecoded_differences_total",
}
