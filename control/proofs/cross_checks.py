"""What a bundle says of issues and approval requests, held against those that the organization has."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.approvals.model import Status
from control.approvals.tables import approval_requests
from control.proofs.model import Link, LinkKind
from proto.proofs.bundle import MitigationAppliedClaim, ProofBundle
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


def find_disagreements(
    bundle: ProofBundle, links: Sequence[Link], requests: Mapping[str, Status], *, has_issue: bool
) -> list[Finding]:
    """Where the bundle says something else than what is stored here."""
    found = []
    if not has_issue:
        found.append(_warning("subject.issueId", "Names no issue of the project.", "unknown"))
    for link in links:
        if link.kind is LinkKind.APPROVAL_REQUEST and link.target not in requests:
            found.append(_warning("claims", f"{link.target} is no approval request of the organization.", "unknown"))
    return [*found, *_check_mitigations(bundle, requests)]


def _check_mitigations(bundle: ProofBundle, requests: Mapping[str, Status]) -> Iterator[Finding]:
    """A mitigation that a human approved has an approval request that is approved."""
    for at, claim in enumerate(bundle.claims):
        if not isinstance(claim, MitigationAppliedClaim) or not claim.evidence.approval.human_approval:
            continue
        status = requests.get(claim.evidence.approval.request_id or "")
        if status is not None and status is not Status.APPROVED:
            path = f"claims[{at}].evidence.approval.humanApproval"
            yield Finding(Severity.ERROR, path, f"The approval request is {status.value}.", "contradiction")


def _status(row: Any, now: datetime) -> Status:
    status = Status(row.status)
    return Status.EXPIRED if status is Status.PENDING and row.expires_at <= now else status


def _warning(path: str, message: str, code: str) -> Finding:
    return Finding(Severity.WARNING, path, message, code)
