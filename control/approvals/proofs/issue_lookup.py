"""The issue that a bundle, or a filter of a list, names: by id, short id or fingerprint."""

from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.issues import FINGERPRINT_BYTES, issue_fingerprints, issues
from control.approvals.proofs.submitted import SubmittedSubject
from control.issues.references import parse_short_id
from control.issues.tables import is_issue_id

MAX_MERGED: Final = 50


class FoundIssue(NamedTuple):
    """An issue of a project. `has_fingerprint`: false if the subject names a fingerprint that does not lead to it."""

    id: str
    number: int
    has_fingerprint: bool = True


async def find_subject(
    connection: AsyncConnection, project_id: int, project_slug: str, subject: SubmittedSubject
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
    found = sa.select(issues.c.id, issues.c.number).where(issues.c.project_id == project_id, *where)
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else FoundIssue(row.id, row.number)


async def _has(connection: AsyncConnection, project_id: int, issue_id: str, fingerprint: bytes | None) -> bool:
    """Whether the fingerprint leads to the issue, or to one that was merged into it; true without a fingerprint."""
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
    """The fingerprint in hexadecimal digits; None for another text."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return None
    return found if len(found) == FINGERPRINT_BYTES else None
