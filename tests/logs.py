"""The logging of the suite, and how a test reads what the product logs."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from chassis.runtime.telemetry import configure_logging


def log_plainly() -> None:
    """Logs as plain lines: structlog's default paints tracebacks, which takes seconds."""
    structlog.reset_defaults()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ]
    )


@contextmanager
def captured_log(level: str = "info") -> Iterator[io.StringIO]:
    """What this process logs, as the product writes it."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(level, stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(before)
    log_plainly()
