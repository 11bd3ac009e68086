"""The rows of issues that counting writes: of new issues, of changed ones, and of those that an upgrade has split."""

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from chassis.auth.id_generation import new_id
from chassis.db.database import format_time
from chassis.issues.tables import IssueStatus, issues
from control.issues.details import Details, search_text
from control.issues.lifecycle import OPEN_STATE
from control.issues.model import IssueRecord
from control.issues.occurrences import Moment, Seen, earlier, later
from control.issues.project_state import ProjectState
from control.issues.reopening import Reopening

_CHANGED: Final = ("count", "first_seen", "first_release", "last_seen", "last_release", "updated_at", "regressed_at")
_DECIDED: Final = ("decided_status", "decided_at")
UPDATE: Final = (
    issues.update()
    .where(issues.c.id == sa.bindparam("of_id"))
    .values({name: sa.bindparam(f"new_{name}") for name in (*_CHANGED, *OPEN_STATE)})
    .values(
        {
            name: sa.func.coalesce(sa.bindparam(f"new_{name}", type_=issues.c[name].type), issues.c[name])
            for name in _DECIDED
        }
    )
)


def update_values(issue: IssueRecord, seen: Seen, total: int, now: datetime) -> dict[str, Any]:
    """The parameters of UPDATE for an issue that has occurred."""
    first = earlier(Moment(issue.first_seen, issue.first_release), seen.first)
    last = later(Moment(issue.last_seen, issue.last_release), seen.last)
    return {
        "of_id": issue.id,
        "new_count": total,
        "new_first_seen": first.at,
        "new_first_release": first.release,
        "new_last_seen": last.at,
        "new_last_release": last.release,
        "new_updated_at": now,
        "new_regressed_at": issue.regressed_at,
        **{f"new_{name}": getattr(issue, name) for name in OPEN_STATE},
        **{f"new_{name}": None for name in _DECIDED},
        "new_status": issue.status.value,
    }


def reopening_data(issue: IssueRecord, opened: Reopening) -> dict[str, object]:
    """What the activity says of an issue that is open again."""
    named = {
        "release": opened.release,
        "occurredAt": format_time(opened.at),
        "resolvedInRelease": issue.resolved_in_release,
        "resolvedAfterRelease": issue.resolved_after_release,
    }
    return {name: value for name, value in named.items() if value is not None}


def new_row(state: ProjectState, fingerprint: bytes, seen: Seen, details: Details, now: datetime) -> dict[str, Any]:
    """The row of a new issue."""
    return {
        **OPEN_STATE,
        "decided_status": None,
        "decided_at": None,
        "id": new_id("iss"),
        "org_id": state.org_id,
        "project_id": state.project_id,
        "number": state.next_number(),
        "fingerprint": fingerprint,
        **details._asdict(),
        "search_text": search_text(details.title, details.culprit),
        "assignee_id": None,
        "regressed_at": None,
        "count": seen.count,
        "first_seen": seen.first.at,
        "last_seen": seen.last.at,
        "first_release": seen.first.release,
        "last_release": seen.last.release,
        "merged_into": None,
        "created_at": now,
        "updated_at": now,
    }


def copied_state(source: IssueRecord) -> dict[str, Any]:
    """The columns of the state of an issue, for one that is split from it. An issue that is ignored for a number of
    occurrences is ignored for as many as are left.
    """
    copied = {name: getattr(source, name) for name in (*OPEN_STATE, "decided_status", "decided_at", "assignee_id")}
    copied["status"] = IssueStatus(source.status).value
    if source.ignored_until_count is not None:
        copied["ignored_until_count"] = max(1, source.ignored_until_count - source.count)
    return copied
