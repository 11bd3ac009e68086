"""The resources that a bundle refers to: its issue, and the approval requests and traces of its claims.

A claim names an approval request and a trace in `recheck.inputs`, as `approvalRequestId` and `traceId`. A mitigation
names its approval request in `evidence.approval.requestId`. A claim names three resources at most, so a bundle has at
most six hundred links.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.issues import FINGERPRINT_BYTES, issue_fingerprints, issues
from control.approvals.model import Status
from control.approvals.proofs.tables import IssuerKey, Link, LinkKind
from control.approvals.tables import approval_requests
from control.issues.references import ShortId, parse_short_id
from control.issues.tables import is_issue_id
from proto.proofs.bundle import Claim, MitigationAppliedClaim, ProofBundle, Subject
from proto.proofs.semantics import Finding, Severity

MAX_LINKS_OF_A_CLAIM: Final = 3
_APPROVAL_ID: Final = re.compile("apr_[0-9a-z]{26}")
_TRACE_ID: Final = re.compile("[0-9a-fA-F]{32}")


def parse_trace_id(text: str) -> str | None:
    """The trace id in lower case, None for a text that is not a trace id."""
    return text.lower() if _TRACE_ID.fullmatch(text) else None


def is_approval_id(text: str) -> bool:
    """Whether the text has the form of the id of an approval request."""
    return _APPROVAL_ID.fullmatch(text) is not None


def links_of(claim: Claim) -> Iterator[Link]:
    """The links of one claim. A text that does not have the form of an id is not a link."""
    inputs = {} if claim.recheck is None else claim.recheck.inputs
    named = [inputs.get("approvalRequestId")]
    if isinstance(claim, MitigationAppliedClaim):
        named.append(claim.evidence.approval.request_id)
    for text in named:
        if text is not None and is_approval_id(text):
            yield Link(LinkKind.APPROVAL_REQUEST, text)
    trace_id = parse_trace_id(inputs.get("traceId", ""))
    if trace_id is not None:
        yield Link(LinkKind.TRACE, trace_id)


PAYLOAD_PATH: Final = "body.payload"  # path of the encoded payload of an envelope, in which the fault is


class SubmittedBundle(NamedTuple):
    """A bundle whose shape is right. `bundle` has neither claims nor names of files. `signer` None: the bundle is not
    signed. `contradictions`: where the bundle contradicts itself, or the Statement around it. `place`: where the bundle
    is in the Statement, empty without a Statement. `links`: the links of each claim. `approvals`: by the index of a
    claim, the approval request by which, as the claim says, a human approved a mitigation.
    """

    bundle: ProofBundle
    signer: IssuerKey | None
    contradictions: Sequence[Finding]
    place: str
    links: Sequence[Sequence[Link]]
    approvals: dict[int, str]

    @property
    def path(self) -> str:
        """The path of the bundle in the request."""
        root = "body" if self.signer is None else PAYLOAD_PATH
        return f"{root}.{self.place}" if self.place else root

    @property
    def distinct_links(self) -> list[Link]:
        """All links without duplicates, in the order of the claims."""
        return list(dict.fromkeys(link for of_claim in self.links for link in of_claim))


def summarize(
    bundle: ProofBundle, signer: IssuerKey | None, contradictions: Sequence[Finding], place: str
) -> SubmittedBundle:
    """The part of a bundle that is kept while the submission waits for the database: some kilobytes for any bundle."""
    links = [list(links_of(claim)) for claim in bundle.claims]
    approvals = {
        at: claim.evidence.approval.request_id
        for at, claim in enumerate(bundle.claims)
        if isinstance(claim, MitigationAppliedClaim)
        and claim.evidence.approval.human_approval
        and claim.evidence.approval.request_id is not None
    }
    patch = replace(bundle.subject.patch, files_changed=[])
    kept = replace(bundle, claims=[], subject=replace(bundle.subject, patch=patch))
    return SubmittedBundle(kept, signer, contradictions, place, links, approvals)


MAX_MERGED: Final = 50


class FoundIssue(NamedTuple):
    """An issue of a project. `has_fingerprint`: false if the subject names a fingerprint of another issue."""

    id: str
    number: int
    has_fingerprint: bool = True


async def find_subject(
    connection: AsyncConnection, project_id: int, project_slug: str, subject: Subject
) -> FoundIssue | None:
    """The project's issue that the subject names: its issue id decides, then its short id, then its fingerprint."""
    fingerprint = parse_fingerprint(subject.fingerprint)
    for text in (subject.issue_id, subject.issue_short_id):
        found = await find_named(connection, project_id, project_slug, text)
        if found is not None:
            return found._replace(has_fingerprint=await _has(connection, project_id, found.id, fingerprint))
    if fingerprint is None:
        return None
    issue_id = _linked(project_id, fingerprint).scalar_subquery()
    return await _find(connection, project_id, issues.c.id == issue_id)


async def find_named(connection: AsyncConnection, project_id: int, project_slug: str, text: str) -> FoundIssue | None:
    """The project's issue with this id or short id."""
    if is_issue_id(text):
        return await _find(connection, project_id, issues.c.id == text)
    name = parse_short_id(text)
    if name is None or name.project_slug != project_slug:
        return None
    return await _find(connection, project_id, issues.c.number == name.number)


async def with_merged(connection: AsyncConnection, issue_id: str) -> list[str]:
    """The issue and the last MAX_MERGED that were merged into it."""
    merged = sa.select(issues.c.id).where(issues.c.merged_into == issue_id).order_by(issues.c.id.desc())
    merged = merged.limit(MAX_MERGED)
    return [issue_id, *(await connection.scalars(merged))]


async def _find(connection: AsyncConnection, project_id: int, *where: Any) -> FoundIssue | None:
    statement = sa.select(issues.c.id, issues.c.number).where(issues.c.project_id == project_id, *where)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else FoundIssue(row.id, row.number)


async def _has(connection: AsyncConnection, project_id: int, issue_id: str, fingerprint: bytes | None) -> bool:
    """Whether the fingerprint belongs to the issue, or to one that was merged into it. True without a fingerprint."""
    if fingerprint is None:
        return True
    is_of = (issues.c.id == issue_id) | (issues.c.merged_into == issue_id)
    return await connection.scalar(_linked(project_id, fingerprint).where(is_of)) is not None


def _linked(project_id: int, fingerprint: bytes) -> sa.Select[tuple[str]]:
    columns = issue_fingerprints.c
    return (
        sa.select(issues.c.id)
        .join_from(issue_fingerprints, issues, issues.c.id == columns.issue_id)
        .where(columns.project_id == project_id, columns.fingerprint == fingerprint)
    )


def parse_fingerprint(text: str) -> bytes | None:
    """The fingerprint of a text in hexadecimal digits, None for another text."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return None
    return found if len(found) == FINGERPRINT_BYTES else None


_CHUNK: Final = 500  # links per statement


async def find_requests(
    connection: AsyncConnection, org_id: str, links: Sequence[Link], now: datetime
) -> dict[str, Status]:
    """The status of each linked approval request of the organization, by id."""
    wanted = [link.target for link in links if link.kind is LinkKind.APPROVAL_REQUEST]
    columns = approval_requests.c
    found: dict[str, Status] = {}
    for start in range(0, len(wanted), _CHUNK):
        chosen = sa.select(columns.id, columns.status, columns.expires_at).where(
            columns.org_id == org_id, columns.id.in_(wanted[start : start + _CHUNK])
        )
        for row in await connection.execute(chosen):
            is_over = row.status == Status.PENDING.value and row.expires_at <= now
            found[row.id] = Status.EXPIRED if is_over else Status(row.status)
    return found


def check_issue(subject: Subject, issue: FoundIssue | None, project_slug: str) -> list[Finding]:
    """Check that the subject names an issue of the project, and that all its names belong to this issue."""
    if issue is None:
        message = "Neither issueId, issueShortId nor fingerprint names an issue of the project."
        return [_warning("subject", message, "unknown")]
    found, short_id = [], str(ShortId(project_slug, issue.number))
    if subject.issue_short_id.upper() != short_id:
        found.append(_warning("subject.issueShortId", f"The short id of the issue is {short_id}.", "contradiction"))
    if not issue.has_fingerprint:
        found.append(_warning("subject.fingerprint", "Is not a fingerprint of the issue.", "contradiction"))
    return found


def check_approvals(bundle: SubmittedBundle, requests: Mapping[str, Status]) -> list[Finding]:
    """Check that the approval requests of claims exist, and are approved where a mitigation says so."""
    found = []
    for at, links in enumerate(bundle.links):
        for link in links:
            if link.kind is LinkKind.APPROVAL_REQUEST and link.target not in requests:
                message = f"{link.target} is not an approval request of the organization."
                found.append(_warning(f"claims[{at}]", message, "unknown"))
        if requests.get(bundle.approvals.get(at, "")) not in (None, Status.APPROVED):
            path = f"claims[{at}].evidence.approval.humanApproval"
            message = "The approval request is not approved."
            found.append(Finding(Severity.ERROR, path, message, "contradiction"))
    return found


def _warning(path: str, message: str, code: str) -> Finding:
    return Finding(Severity.WARNING, path, message, code)
