"""How a run on several workers is divided: a file is one worker's, for what it starts it starts once; the tests of one
deployment are one worker's wherever they stand, for the deployment is what takes long; and what takes longest begins
first, so that no worker is left alone with it at the end. How long each takes is in `durations.json`, as the last run
with `--store-durations` measured it.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has types and does not say so
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from tests.e2e.product import DEPLOYMENTS

DURATIONS: Final = Path(__file__).with_name("durations.json")
LEAST_S: Final = 1.0  # what takes less is not written down


def measured() -> dict[str, float]:
    """Seconds by part, of the last runs that were measured."""
    found: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    return found


def part_of(test: str) -> str:
    """What goes to one worker as a whole: the deployment of a test that takes the shared one, or its file."""
    file, _, name = test.partition("::")
    parameters = name.partition("[")[2]
    return next((deployment for deployment in DEPLOYMENTS if parameters.startswith(deployment)), file)


class Division(LoadFileScheduling):  # type: ignore[misc]  # likewise
    """`--dist loadfile` with deployments kept together and the longest parts first."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._seconds = measured()

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give the worker the longest part that is left."""
        longest = max(self.workqueue, key=lambda part: self._seconds.get(part, LEAST_S))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


class Stopwatch:
    """Adds up how long the parts of a run took."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of every worker's tests, with what they set up and take down."""
        self._seconds[part_of(report.nodeid)] += report.duration  # type: ignore[assignment]  # a counter of seconds

    def pytest_sessionfinish(self) -> None:
        """Write them down, the longest first, with those that did not run this time."""
        seconds = measured() | self._seconds
        longest = {
            part: round(taken, 1)
            for part, taken in sorted(seconds.items(), key=lambda each: -each[1])
            if taken >= LEAST_S
        }
        DURATIONS.write_text(json.dumps(longest, indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--store-durations`."""
    parser.addoption("--store-durations", action="store_true", help="measure anew what tests/durations.json has")


def pytest_configure(config: pytest.Config) -> None:
    """Measure, where that is asked for; workers report to the run that started them."""
    if config.getoption("--store-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())


@pytest.hookimpl(optionalhook=True)  # a run without workers may be one without their plugin
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Division | None:
    """Ours where files are to be kept together."""
    return Division(config, log) if config.getoption("dist") == "loadfile" else None
