"""Rules of the suite as a whole: in CI a skipped test is a failure, for what a test needs the set-up installs."""

import gc
import os

import pytest
from hypothesis import settings

from tests.imports import find_docstrings_by_name
from tests.logs import log_plainly

pytest_plugins = (
    "tests.control.receiver",
    "tests.databases",
    "tests.division",
    "tests.cpu",
    "tests.redis_server",
    "tests.selection",
)

# Their asserts are the tests', and hold under -O too.
pytest.register_assert_rewrite(
    "tests.e2e.agents",
    "tests.e2e.directories",
    "tests.e2e.reading",
    "tests.fuzz.targets",
    "tests.proto.otlp.native_rows",
)


# `make test` tries the same fifty examples each time, `make test-long` a hundred others.
LONG = bool(os.environ.get("TEST_LONG"))
settings.register_profile("seeded", derandomize=not LONG, max_examples=100 if LONG else 50, deadline=None)
settings.load_profile("seeded")

# Importing and collecting make millions of objects and leave no garbage: by default the collector would go over them
# again and again. `pytest_collection_finish` lets it begin.
gc.disable()
find_docstrings_by_name()


def pytest_configure() -> None:
    """Before any test runs."""
    log_plainly()


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what the imported modules and the collected tests are made of: it would look at
    these million objects again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a green run with skips into a red one when CI is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    skipped = len(reporter.stats.get("skipped", ()))
    if skipped and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{skipped} skipped: in CI every test runs", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
