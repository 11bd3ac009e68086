"""Integrations with their secrets, by what a request names; kept in memory for a moment.

A delivery is verified with what is kept here, and applied only if the integration is still the same
(`control.inbound.webhooks.inbox`): who is disabled, deleted or rotated a moment ago is refused all the same.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from chassis.db.database import Database
from control.inbound.integrations import repository
from control.inbound.integrations.model import MAX_HOOK_ID_LENGTH, Hook, IntegrationKind
from control.secrets.secret_box import SecretBox

KEPT_S: Final = 1.0
MAX_KEPT: Final = 1_000
_ID: Final = re.compile(r"int_[0-9a-z]{26}")
_HOOK_ID: Final = re.compile(rf"[!-~]{{1,{MAX_HOOK_ID_LENGTH}}}")


class Hooks:
    """Finds enabled integrations."""

    def __init__(
        self, database: Database, secret_box: SecretBox, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = database
        self._secret_box = secret_box
        self._now = now
        self._kept: OrderedDict[str, tuple[float, Hook]] = OrderedDict()

    async def by_id(self, integration_id: str) -> Hook | None:
        """Raises DatabaseUnavailable."""
        if _ID.fullmatch(integration_id) is None:
            return None
        kept = self._kept.get(integration_id)
        if kept is not None and time.monotonic() - kept[0] < KEPT_S:
            return kept[1]
        async with self._database.read() as connection:
            hook = await repository.find_hook(connection, self._secret_box, integration_id, self._now())
        self.forget(integration_id)
        if hook is not None:
            self._kept[integration_id] = time.monotonic(), hook
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return hook

    async def by_header(self, kind: IntegrationKind, hook_id: str) -> list[Hook]:
        """Those whose webhook the platform names so. Raises DatabaseUnavailable."""
        if _HOOK_ID.fullmatch(hook_id) is None:
            return []
        async with self._database.read() as connection:
            return await repository.find_hooks_by_header(connection, self._secret_box, kind, hook_id, self._now())

    def forget(self, integration_id: str) -> None:
        """Read it again next time."""
        self._kept.pop(integration_id, None)
