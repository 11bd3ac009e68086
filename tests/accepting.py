"""Servers of a few lines for tests, on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
_TURNS: Final = 4  # of the loop, from the acceptance of a connection to `connected`


@asynccontextmanager
async def accepting(serve: Serve) -> AsyncIterator[int]:
    """The port of a server that does `serve` with each connection and closes it then.

    `asyncio.start_server` leaves a connection open whose coroutine is cancelled, and one that is being accepted while
    the server is closed. Here none is left at the end.
    """
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _task: writer.close())

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.get_running_loop().remove_reader(server.sockets[0])
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
