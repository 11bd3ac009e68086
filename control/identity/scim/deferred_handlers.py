"""The handlers of SCIM, imported when the first request of a directory comes: the library of their models takes a third
of the CPU time and 16 of the 117 MB that importing control takes, and an installation may have no directory.
"""

import asyncio
from typing import TYPE_CHECKING

from control.http.context import HandlerContext
from control.identity.scim.guard import DirectoryGuard
from control.identity.scim.urls import ScimUrls

if TYPE_CHECKING:
    from control.identity.scim.handlers import ScimHandlers


class DeferredHandlers:
    """The handlers, and their dependencies."""

    def __init__(self, context: HandlerContext, guard: DirectoryGuard, urls: ScimUrls) -> None:
        self._context = context
        self._guard = guard
        self._urls = urls
        self._handlers: ScimHandlers | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> "ScimHandlers":
        """The handlers. The first requests wait for the import, in a thread; others are served meanwhile."""
        async with self._lock:
            if self._handlers is None:
                self._handlers = await asyncio.to_thread(self._import)
        return self._handlers

    def _import(self) -> "ScimHandlers":
        from control.identity.scim.handlers import build_handlers  # noqa: PLC0415 (see above)

        return build_handlers(self._context, self._guard, self._urls)
