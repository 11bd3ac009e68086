"""What a bundle says of issues and approval requests, held against those that the organization has."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.approvals.model import Status
from control.approvals.proofs.issue_lookup import FoundIssue
from control.approvals.proofs.model import Link, LinkKind
from control.approvals.proofs.submitted import SubmittedBundle, SubmittedSubject
from control.approvals.tables import approval_requests
from control.issues.references import ShortId
from proto.proofs.semantics import Finding, Severity

_CHUNK: Final = 500  # of one statement


async def find_requests(
    connection: AsyncConnection, org_id: str, links: Sequence[Link], now: datetime
) -> dict[str, Status]:
    """The status of each approval request of the organization that is linked."""
    wanted = [link.target for link in links if link.kind is LinkKind.APPROVAL_REQUEST]
    columns = approval_requests.c
    found: dict[str, Status] = {}
    for start in range(0, len(wanted), _CHUNK):
        chosen = sa.select(columns.id, columns.status, columns.expires_at).where(
            columns.org_id == org_id, columns.id.in_(wanted[start : start + _CHUNK])
        )
        for row in await connection.execute(chosen):
            found[row.id] = _status(row, now)
    return found


def check_issue(subject: SubmittedSubject, issue: FoundIssue | None, project_slug: str) -> list[Finding]:
    """Whether the subject names an issue of the project, and only that one."""
    if issue is None:
        message = "Neither issueId, issueShortId nor fingerprint names an issue of the project."
        return [_warning("subject", message, "unknown")]
    found, short_id = [], str(ShortId(project_slug, issue.number))
    if subject.issue_short_id.upper() != short_id:
        found.append(_warning("subject.issueShortId", f"Is not that of the issue, {short_id}.", "contradiction"))
    if not issue.has_fingerprint:
        found.append(_warning("subject.fingerprint", "Is not that of the issue.", "contradiction"))
    return found


def check_approvals(bundle: SubmittedBundle, requests: Mapping[str, Status]) -> list[Finding]:
    """Whether approval requests that claims name are there, and approved where a mitigation says so."""
    found = []
    for at, links in enumerate(bundle.links):
        for link in links:
            if link.kind is LinkKind.APPROVAL_REQUEST and link.target not in requests:
                message = f"{link.target} is no approval request of the organization."
                found.append(_warning(f"claims[{at}]", message, "unknown"))
        if requests.get(bundle.approvals.get(at, "")) not in (None, Status.APPROVED):
            path = f"claims[{at}].evidence.approval.humanApproval"
            message = "The approval request is not approved."
            found.append(Finding(Severity.ERROR, path, message, "contradiction"))
    return found


def _status(row: Any, now: datetime) -> Status:
    status = Status(row.status)
    return Status.EXPIRED if status is Status.PENDING and row.expires_at <= now else status


def _warning(path: str, message: str, code: str) -> Finding:
    return Finding(Severity.WARNING, path, message, code)
