"""What a process of Sluice exposes."""

from collections.abc import Mapping
from typing import Any

import pytest

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from sluice.app_builder import compose_app
from sluice.settings_sources import SettingsSources

# A worker's number comes with `--workers`; the others are Prometheus' own, of the target.
ALWAYS: frozenset[str] = frozenset({"instance", "job", "worker"})


@pytest.fixture(scope="session")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, frozenset[str]]:
    """Labels by metric of a gateway in the mode `journal`, of query and control with embedded stores, with those that
    every metric gets.
    """
    telemetry = Telemetry("gateway")
    chassis = ChassisSettings(data=str(tmp_path_factory.mktemp("data")))
    compose_app(("gateway", "query", "control"), SettingsSources({}, None, {}), chassis, telemetry)
    found: dict[str, frozenset[str]] = {"sluice_worker_up": ALWAYS}
    for collector in telemetry.registry._collector_to_names:
        for family in collector.collect():
            for name, labels in _series(collector, family):
                found[name] = frozenset(labels) | ALWAYS
    return found


def _series(collector: Any, family: Any) -> list[tuple[str, list[str]]]:
    """Names and labels of one metric, also where it has no sample yet."""
    labels = getattr(collector, "_labelnames", None)
    if labels is None:
        return [(sample.name, list(sample.labels)) for sample in family.samples]
    own = list(labels)
    if family.type == "counter":
        return [(f"{family.name}_total", own)]
    if family.type == "histogram":
        name = family.name
        return [(f"{name}_bucket", [*own, "le"]), (f"{name}_sum", own), (f"{name}_count", own)]
    return [(family.name, own)]
