"""Set-up of a process: event loop, memory allocator, logging."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec

from chassis.clickhouse import ClickHouse, StoreError
from chassis.clickhouse.migrations import ClickHouseSchemaError
from chassis.db.database import Database
from chassis.errors import ApiError, StartupError
from chassis.runtime import memory
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import configure_logging

T = TypeVar("T")
Store = TypeVar("Store", bound=Database | ClickHouse)

_LIBRARY_LOG_LEVELS: Final = {
    "alembic": logging.WARNING,  # logs every connection
    "clickhouse_connect": logging.ERROR,  # logs failures that it also raises; callers log or return them
    "urllib3": logging.ERROR,
}


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to completion on uvloop if it is installed, otherwise on asyncio.

    Raises StartupError, one sentence, if a store fails. A StartupError of `work` has an exit code of its own and is not
    changed.
    """
    memory.tune_malloc()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(work)
    except StartupError:
        raise
    except (StoreError, ClickHouseSchemaError, ApiError) as error:
        raise StartupError(str(error)) from error


@asynccontextmanager
async def started(store: Store) -> AsyncIterator[Store]:
    """The store, started, and closed afterwards."""
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def log_to_stderr(settings: ChassisSettings) -> None:
    """Log JSON lines to standard error; standard output is for the user."""
    configure_logging(settings.log_level)
    quiet_libraries()


def quiet_libraries() -> None:
    """Suppress log lines of libraries about failures that callers log."""
    for library, level in _LIBRARY_LOG_LEVELS.items():
        logging.getLogger(library).setLevel(level)


def with_bound_port(settings: ChassisSettings, listener: socket.socket) -> ChassisSettings:
    """The settings with the port that the listener is bound to, which differs if the setting is 0."""
    return msgspec.structs.replace(settings, port=listener.getsockname()[1])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # the default loop of asyncio
    return uvloop.new_event_loop
