"""An issue as the database has it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Self

from chassis.issues.states import status_at
from chassis.issues.tables import IssueStatus

ISSUE_ID_PATTERN: Final = "iss_[0-9a-z]{26}"
_ISSUE_ID: Final = re.compile(ISSUE_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class IssueRecord:
    """A row of `issues`. `resolved_in_release`: fixed in it; `resolved_after_release`: fixed in the next one."""

    id: str
    org_id: str
    project_id: int
    number: int
    fingerprint: bytes
    type: str | None
    title: str
    culprit: str | None
    status: IssueStatus
    decided_status: str | None
    decided_at: datetime | None
    resolved_at: datetime | None
    resolved_in_release: str | None
    resolved_after_release: str | None
    ignored_until: datetime | None
    ignored_until_count: int | None
    assignee_id: str | None
    regressed_at: datetime | None
    count: int
    first_seen: datetime
    last_seen: datetime
    first_release: str | None
    last_release: str | None
    merged_into: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """The issue in a row with all columns."""
        values = {field.name: row[field.name] for field in fields(cls)}
        return cls(**values | {"fingerprint": bytes(row["fingerprint"]), "status": IssueStatus(row["status"])})

    def status_at(self, now: datetime) -> IssueStatus:
        """The status, as `chassis.issues.states.status_at` has it."""
        return status_at(self.status, self.ignored_until, now)


def is_issue_id(text: str) -> bool:
    """Whether the text has the form of an issue's id."""
    return _ISSUE_ID.fullmatch(text) is not None
