"""The Grafana dashboards ask for nothing that a process does not tell, and show each panel in a place of its own."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.promql import named

FOLDER: Final = Path(__file__).parents[2] / "deploy/grafana"
# Each with the metrics that it is about.
FILES: Final = {"sluice-gateway": ("sluice_gateway_", "sluice_deliver"), "sluice-query": ("sluice_query_",)}
TEXTS: Final = {name: (FOLDER / f"{name}.json").read_text(encoding="utf-8") for name in FILES}
DASHBOARDS: Final[dict[str, dict[str, Any]]] = {name: json.loads(text) for name, text in TEXTS.items()}
CHARTS: Final = {
    f"{name}: {panel['title']}": panel
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
}
VARIABLES: Final = {"$__rate_interval": "5m", "$instance": ".*"}
IN_LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")


def test_all_dashboards_are_looked_at() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == FILES.keys()
    assert {dashboard["uid"] for dashboard in DASHBOARDS.values()} == FILES.keys()


@pytest.mark.parametrize("panel", CHARTS.values(), ids=CHARTS)
def test_a_panel_asks_for_what_a_process_tells(panel: dict[str, Any], exposed: Mapping[str, frozenset[str]]) -> None:
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


@pytest.mark.parametrize("name", FILES)
def test_variables_are_those_that_panels_use(name: str) -> None:
    variables = DASHBOARDS[name]["templating"]["list"]
    assert [variable["name"] for variable in variables] == ["datasource", "instance"]
    query = variables[1]["query"]
    assert query == "label_values(sluice_build_info, instance)"


@pytest.mark.parametrize("name", FILES)
def test_panels_have_a_place_and_a_name_of_their_own(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    panels = DASHBOARDS[name]["panels"]
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for key in ("id", "title"):
        values = [panel[key] for panel in panels]
        assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", FILES)
def test_every_metric_that_an_operator_needs_is_shown(name: str, exposed: Mapping[str, frozenset[str]]) -> None:
    about = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in exposed if metric.startswith(FILES[name])}
    assert about
    assert {metric for metric in about if metric not in TEXTS[name]} <= NOT_SHOWN


# Details to look up at /metrics when something else has shown that they matter.
NOT_SHOWN: Final = {
    "sluice_gateway_exceptions_over_limit_total",
    "sluice_gateway_fingerprint_failures_total",
    "sluice_gateway_inflight_items",
    "sluice_gateway_overlooked_requests_total",
    "sluice_gateway_quota_failures_total",
    "sluice_gateway_quota_left_items_total",
    "sluice_gateway_redecoded_differences_total",
}
