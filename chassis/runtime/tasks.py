"""The end of background tasks."""

import asyncio
from typing import Any


async def cancel_tasks(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancel those tasks that were started (None: not), and wait until each has ended, however it ends."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
