"""How a run on several workers is divided: a file is one worker's, for what it starts it starts once; the tests of one
deployment are one worker's wherever they stand, for the deployment is what takes long; and what takes longest begins
first, so that no worker is left alone with it at the end.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has types and does not say so
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from tests.e2e.product import DEPLOYMENTS

# Parts of a run that take half a minute and more, the longest first. The others go by how many tests they have.
LONGEST = (
    "tests/faults/test_kills.py",
    "tests/faults/test_process.py",
    "tests/faults/test_fault_29_worst_legal_input.py",
    "tests/faults/test_clickhouse.py",
    "tests/e2e/test_apart.py",
    "tests/e2e/test_client_outage.py",
    "tests/faults/test_embedded.py",
    *DEPLOYMENTS,
    "tests/sluice/test_up.py",
    "tests/gateway/test_conservation.py",
    "tests/e2e/test_schema.py",
    "tests/sluice/test_databases.py",
    "tests/query/analysis/test_attributes.py",
    "tests/query/asking/test_matching.py",
    "tests/query/asking/test_requests.py",
    "tests/query/lists/test_pages.py",
    "tests/query/analysis/test_compare_counts.py",
    "tests/sluice/test_commands.py",
    "tests/sluice/test_limits.py",
    "tests/sluice/test_repair.py",
    "tests/sluice/test_redis.py",
    "tests/faults/test_journal.py",
    "tests/gateway/journal/test_model.py",
    "tests/gateway/test_other_modes.py",
    "tests/faults/test_fault_21_bombs.py",
    "tests/faults/test_fault_22_slow_clients.py",
    "tests/faults/test_fault_24_hostile_content.py",
    "tests/test_packaging.py",
)


class Division(LoadFileScheduling):  # type: ignore[misc]  # likewise
    """`--dist loadfile` with deployments kept together and the longest parts first."""

    def _split_scope(self, nodeid: str) -> str:
        """What goes to one worker as a whole: the deployment of a test that takes the shared one, or its file."""
        file, _, test = nodeid.partition("::")
        parameters = test.partition("[")[2]
        return next((name for name in DEPLOYMENTS if parameters.startswith(name)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give the worker the longest part that is left."""
        longest = next((part for part in LONGEST if part in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)  # a run without workers may be one without their plugin
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Division | None:
    """Ours where files are to be kept together."""
    return Division(config, log) if config.getoption("dist") == "loadfile" else None
