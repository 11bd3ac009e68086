"""Deletes the relational rows of deleted projects and organizations, in batches. Each batch is a separate transaction,
so other writers wait for one batch at most. Every batch deletes rows that still exist. An interrupted purge can
therefore be resumed, and two processes can purge at once.

`docs/adr/022-erasure.md` lists what is kept of each table.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import (
    access_tokens,
    delegations,
    invitations,
    memberships,
    project_keys,
    refresh_tokens,
    sessions,
)
from chassis.changes import change_events
from chassis.db.database import Database, DatabaseUnavailable
from chassis.erasures import repository
from chassis.erasures.repository import StoredErasure
from chassis.erasures.tables import ErasureKind
from chassis.issues import issues
from chassis.runtime.periodic import FailureLog, LoggedFailure, PeriodicTask
from chassis.source_maps.store import source_maps
from control.approvals.policies.store import approval_policies
from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys, proof_links, proof_usage
from control.approvals.tables import approval_requests, approval_votes
from control.audit import erasing
from control.audit.tables import audit_events
from control.export.tables import (
    issue_change_numbers,
    warehouse_checkpoints,
    warehouse_runs,
    warehouse_sinks,
)
from control.governance.billing.store import subscriptions
from control.identity.chat_links import chat_link_codes, chat_links
from control.identity.directory.tables import (
    scim_group_members,
    scim_groups,
    scim_settings,
    scim_tokens,
    scim_user_emails,
    scim_users,
)
from control.identity.sso.tables import (
    sso_assertions,
    sso_connections,
    sso_domains,
    sso_handoff_codes,
    sso_identities,
    sso_link_requests,
    sso_logins,
    sso_settings,
)
from control.identity.users.login_store import login_codes
from control.identity.users.user_store import anonymize_orphans, leave_home
from control.inbound.chat.update_queue import chat_updates
from control.inbound.integrations.tables import inbound_deliveries, integrations
from control.inbound.webhooks.platform_events import platform_events
from control.issues.releases.tables import (
    code_reverts,
    commit_issues,
    commits,
    proposal_issues,
    proposals,
    release_commits,
    release_projects,
    releases,
)
from control.issues.tables import issue_activity, issue_erasures, issue_links, issue_projects
from control.notify.channels.tables import deliveries, notification_channels
from control.notify.deliveries.store import delete_deliveries
from control.saved_views import saved_views

POLL_S: Final = 5.0
COMPACTION_SHARE: Final = 0.05  # of the time: a compaction rewrites the file, and deletions may be requested all day
BATCH: Final = 500  # rows per transaction
PAUSE_S: Final = 0.02  # between two batches, for other writers
MAX_ERASURES: Final = 100  # read at once

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _TableStep:
    """A table with rows of an organization to delete, and the columns that name principals. `batch`: the maximum number
    of rows per transaction, for tables with large rows.
    """

    table: sa.Table
    principals: tuple[str, ...] = ()
    batch: int = BATCH


_LARGE_BATCH: Final = 16  # for rows of several megabytes

# In the order of foreign keys: rows that refer to other rows first. Deliveries precede these tables, the audit log
# follows them.
_ORGANIZATION_STEPS: Final = (
    _TableStep(source_maps, ("created_by",), _LARGE_BATCH),
    _TableStep(proof_links),
    _TableStep(proof_bundles, ("submitted_by",), _LARGE_BATCH),
    _TableStep(proof_usage),
    _TableStep(proof_issuer_keys, ("created_by",)),
    _TableStep(warehouse_runs),
    _TableStep(warehouse_checkpoints),
    _TableStep(warehouse_sinks, ("created_by",)),
    _TableStep(issue_change_numbers),
    _TableStep(inbound_deliveries),
    _TableStep(integrations, ("created_by",)),
    _TableStep(chat_updates),
    _TableStep(chat_link_codes, ("principal_id",)),
    _TableStep(chat_links, ("principal_id",)),
    _TableStep(subscriptions),
    _TableStep(platform_events),
    _TableStep(notification_channels, ("created_by",)),  # and their subscriptions, which the database deletes
    _TableStep(change_events, ("created_by",)),
    _TableStep(code_reverts),
    _TableStep(proposal_issues),
    _TableStep(proposals),
    _TableStep(commit_issues),
    _TableStep(release_commits),
    _TableStep(commits),
    _TableStep(release_projects),
    _TableStep(releases, ("created_by",)),
    _TableStep(issue_links, ("created_by",)),
    _TableStep(issue_activity, ("principal_id",)),
    _TableStep(issues, ("assignee_id",)),
    _TableStep(issue_erasures),
    _TableStep(issue_projects),
    _TableStep(scim_group_members),
    _TableStep(scim_groups),
    _TableStep(scim_user_emails),
    _TableStep(scim_users, ("principal_id",)),
    _TableStep(scim_settings, ("successor_id",)),
    _TableStep(scim_tokens, ("created_by",)),
    _TableStep(sso_handoff_codes, ("principal_id",)),
    _TableStep(sso_link_requests, ("principal_id",)),
    _TableStep(sso_logins, ("link_principal_id",)),
    _TableStep(sso_assertions),
    _TableStep(sso_identities, ("principal_id",)),
    _TableStep(sso_connections),
    _TableStep(sso_domains),
    _TableStep(sso_settings),
    _TableStep(approval_votes, ("principal_id", "on_behalf_of")),
    _TableStep(approval_requests, ("requester_id", "on_behalf_of", "decider_id")),
    _TableStep(approval_policies),
    _TableStep(saved_views, ("created_by",)),
    _TableStep(project_keys, ("created_by",)),
    _TableStep(delegations, ("subject_id",)),
    _TableStep(refresh_tokens),
    _TableStep(login_codes, ("principal_id",)),
    _TableStep(sessions, ("principal_id",)),
    _TableStep(invitations, ("created_by", "accepted_by")),
    _TableStep(access_tokens, ("principal_id",)),
    _TableStep(memberships, ("principal_id",)),
)
_PROJECT_STEPS: Final = (
    _TableStep(source_maps, batch=_LARGE_BATCH),
    _TableStep(proof_links),
    _TableStep(proof_bundles, batch=_LARGE_BATCH),
    *map(_TableStep, (
        proof_usage, notification_channels, saved_views, project_keys, change_events, proposal_issues, commit_issues,
        release_projects, issue_links, issue_activity, issues, issue_erasures, issue_projects,
    )),
)  # fmt: skip

Batch = Callable[[AsyncConnection], Awaitable[int]]


class Purger:
    """Polls for deleted projects and organizations, one task per process."""

    def __init__(
        self,
        database: Database,
        *,
        batch: int = BATCH,
        pause_s: float = PAUSE_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._compact_at = -math.inf
        self._emptied: set[str] = set()  # ids of erasures whose rows are deleted, and which wait for a compaction
        self._failure_log = FailureLog(log, "deleting the rows of an erasure failed")
        self._database = database
        self._batch = batch
        self._pause_s = pause_s
        self._now = now
        self.running = PeriodicTask(
            self.poll_once, POLL_S, log, "deleting the rows of deleted organizations failed", run_immediately=True
        ).running

    async def poll_once(self) -> None:
        """Delete all rows that are to be purged. Then remove their remains from a SQLite file, once for all erasures.
        Only then the erasures count as purged. Raises DatabaseUnavailable.
        """
        async with self._database.read() as connection:
            unpurged = await repository.list_unpurged(connection, MAX_ERASURES)
        known = {erasure.id for erasure in unpurged}  # other processes have purged the others
        self._emptied &= known
        done = [erasure for erasure in unpurged if await self._is_emptied(erasure)]
        if len(done) == len(unpurged):
            self._failure_log.succeeded()
        if not done or self._clock() < self._compact_at:
            return
        begun = self._clock()
        try:
            await self._database.compact()
        finally:
            self._compact_at = self._clock() + (self._clock() - begun) / COMPACTION_SHARE
        for erasure in done:
            async with self._database.write() as connection:
                await repository.mark_purged(connection, erasure, self._now())
            self._emptied.discard(erasure.id)
            log.info("relational rows erased", erasure_id=erasure.id, kind=erasure.kind.value)

    async def _is_emptied(self, erasure: StoredErasure) -> bool:
        """Delete the rows of the erasure, unless this process has done so already. Returns False if that fails. A
        failed erasure is retried at the next poll, and does not delay the others.
        """
        if erasure.id in self._emptied:
            return True
        try:
            await self._delete_rows(erasure)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 (a row may hold anything)
            reason = f"{erasure.id}: {type(error).__name__}: {error}"
            self._failure_log.failed(LoggedFailure(erasure.id, reason))
            return False
        self._emptied.add(erasure.id)
        return True

    async def _delete_rows(self, erasure: StoredErasure) -> None:
        async with self._database.write() as connection:
            await repository.begin_purge(connection, erasure.id)
        for name, step in self._steps(erasure):
            await self._run_batches(erasure, name, step)
        while erasure.kind is ErasureKind.ORGANIZATION and not await erasing.seal(self._database, erasure.org_id):
            await self._run_batches(erasure, audit_events.name, self._audit_step(erasure.org_id))

    def _steps(self, erasure: StoredErasure) -> list[tuple[str, Batch]]:
        """The batches to repeat until they delete no more rows, each with the name of its table."""
        if erasure.kind is ErasureKind.ORGANIZATION:
            of_deliveries = deliveries.c.org_id == erasure.org_id
            steps = [(step, step.table.c.org_id == erasure.org_id) for step in _ORGANIZATION_STEPS]
            last = [(audit_events.name, self._audit_step(erasure.org_id))]
        else:
            of_project = notification_channels.c.project_id == erasure.project_id
            of_deliveries = deliveries.c.channel_id.in_(sa.select(notification_channels.c.id).where(of_project))
            steps = [(step, step.table.c.project_id == erasure.project_id) for step in _PROJECT_STEPS]
            last = []
        tables = [(step.table.name, self._table_step(step, where)) for step, where in steps]
        return [(deliveries.name, self._delivery_step(of_deliveries)), *tables, *last]

    async def _run_batches(self, erasure: StoredErasure, table: str, step: Batch) -> None:
        """Run the batches. Each batch is counted in its own transaction, so that a crash neither loses nor repeats a
        count.
        """
        while True:
            async with self._database.write() as connection:
                number = await step(connection)
                if number:
                    await repository.add_counts(connection, erasure.id, {table: number})
            if not number:
                return
            await asyncio.sleep(self._pause_s)

    def _delivery_step(self, where: sa.ColumnElement[bool]) -> Batch:
        async def delete(connection: AsyncConnection) -> int:
            return await delete_deliveries(connection, sa.select(deliveries.c.id).where(where).limit(self._batch))

        return delete

    def _table_step(self, step: _TableStep, where: sa.ColumnElement[bool]) -> Batch:
        key = tuple(step.table.primary_key.columns)
        whole_key = sa.tuple_(*key)
        # In the order of the key, because some tables have no index by organization.
        last: tuple[Any, ...] | None = None

        async def delete(connection: AsyncConnection) -> int:
            nonlocal last
            columns = [step.table.c[name] for name in step.principals]
            page = sa.select(*key, *columns).where(where).order_by(*key).limit(min(self._batch, step.batch))
            if last is not None:
                page = page.where(whole_key > last)
            rows = (await connection.execute(page)).all()
            if not rows:
                return 0
            keys = [tuple(row[: len(key)]) for row in rows]
            await connection.execute(step.table.delete().where(whole_key.in_(keys)))
            last = keys[-1]
            named = {one for row in rows for one in row[len(key) :] if one is not None}
            for deleted in keys if step.table is memberships else ():
                membership = dict(zip((column.name for column in key), deleted, strict=True))
                await leave_home(connection, membership["principal_id"], membership["org_id"])
            if named:
                await anonymize_orphans(connection, named, self._now())
            return len(rows)

        return delete

    def _audit_step(self, org_id: str) -> Batch:
        last = 0

        async def erase(connection: AsyncConnection) -> int:
            nonlocal last
            erased = await erasing.erase_events(connection, org_id, last, self._batch)
            if erased is None:
                return 0
            await anonymize_orphans(connection, erased.principal_ids, self._now())
            last = erased.last_seq
            return erased.events

        return erase
