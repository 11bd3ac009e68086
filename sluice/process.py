"""One process: an event loop, a port, an application, until SIGTERM."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec

from chassis.clickhouse import StoreError
from chassis.clickhouse.migrations import ClickHouseSchemaError
from chassis.errors import ApiError, StartupError
from chassis.runtime import memory
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import configure_logging

T = TypeVar("T")

_LIBRARY_LOG_LEVELS: Final = {
    "alembic": logging.WARNING,  # announces every connection
    "clickhouse_connect": logging.ERROR,  # these two warn of failures that they also raise, and we then log or answer
    "urllib3": logging.ERROR,
}


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on the fastest loop at hand. Raises StartupError, one sentence, when a store stops the work; one
    that says how the command is to end, for a setting is wrong, as it is.
    """
    memory.tune_malloc()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(work)
    except StartupError:
        raise
    except (StoreError, ClickHouseSchemaError, ApiError) as error:
        raise StartupError(str(error)) from error


def log_to_stderr(settings: ChassisSettings) -> None:
    """JSON lines on standard error; standard output is for people."""
    configure_logging(settings.log_level)
    for library, level in _LIBRARY_LOG_LEVELS.items():
        logging.getLogger(library).setLevel(level)


def with_bound_port(settings: ChassisSettings, listener: socket.socket) -> ChassisSettings:
    """The settings with the port that was given for port 0."""
    return msgspec.structs.replace(settings, port=listener.getsockname()[1])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # asyncio's own
    return uvloop.new_event_loop
