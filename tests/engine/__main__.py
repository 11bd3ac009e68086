"""A ClickHouse server for tests: the embedded engine as a process of its own, behind ClickHouse's HTTP interface.

python -m tests.engine --directory DIR --port P [--user U --password PW] [--readonly-user NAME:PW]
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Final

from aiohttp import web

from tests.engine.embedded import Embedded
from tests.engine.server import MAX_BODY, Interface, User

LINE: Final = 2**20  # http_max_uri_size


async def serve(
    engine: Embedded, users: dict[str, User], port: int, keep_alive_s: float, host: str = "127.0.0.1"
) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    interface = Interface(engine, users)
    runner = web.AppRunner(
        interface.application(),
        handle_signals=False,
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,
        keepalive_timeout=keep_alive_s,
        max_line_size=LINE,
        max_field_size=LINE,
        shutdown_timeout=1.0,
        read_bufsize=MAX_BODY,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        sys.stdout.write(f"{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()
        with contextlib.suppress(Exception):
            interface.close()


def main() -> None:
    """Read the command line, open the engine, serve, close it."""
    parser = argparse.ArgumentParser(prog="tests.engine", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    parser.add_argument("--readonly-user", metavar="NAME:PASSWORD", help="a user with readonly = 2 in the profile")
    parser.add_argument("--frozen-user", metavar="NAME:PASSWORD", help="the same with readonly = 1: no settings")
    parser.add_argument("--keep-alive", type=float, default=10.0, help="seconds; ClickHouse's own default")
    parser.add_argument("--config", type=Path, help="configuration of the engine, XML")
    arguments = parser.parse_args()
    users = {arguments.user: User(arguments.password)}
    for level, given in (("2", arguments.readonly_user), ("1", arguments.frozen_user)):
        if given:
            name, _, password = given.partition(":")
            users[name] = User(password, {"readonly": level})
    engine = Embedded(arguments.directory, arguments.config)
    try:
        asyncio.run(serve(engine, users, arguments.port, arguments.keep_alive))
    finally:
        engine.close()


if __name__ == "__main__":
    main()
