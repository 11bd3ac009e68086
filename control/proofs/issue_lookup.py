"""The issue that a bundle, or a filter of a list, names: by id, short id or fingerprint."""

from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.issues.tables import FINGERPRINT_BYTES, issues
from control.issues.model import is_issue_id
from control.issues.references import parse_short_id
from control.proofs.submitted import SubmittedSubject

MAX_MERGED: Final = 50


class FoundIssue(NamedTuple):
    """An issue of a project."""

    id: str
    number: int
    fingerprint: bytes


async def find_subject(
    connection: AsyncConnection, project_id: int, project_slug: str, subject: SubmittedSubject
) -> FoundIssue | None:
    """The project's issue that the subject names: its issue id decides, then its short id, then its fingerprint."""
    for text in (subject.issue_id, subject.issue_short_id):
        found = await find_named(connection, project_id, project_slug, text)
        if found is not None:
            return found
    fingerprint = parse_fingerprint(subject.fingerprint)
    return None if fingerprint is None else await _find(connection, project_id, issues.c.fingerprint == fingerprint)


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
    columns = issues.c
    found = sa.select(columns.id, columns.number, columns.fingerprint).where(columns.project_id == project_id, *where)
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else FoundIssue(row.id, row.number, bytes(row.fingerprint))


def parse_fingerprint(text: str) -> bytes | None:
    """The fingerprint in hexadecimal digits; None for another text."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return None
    return found if len(found) == FINGERPRINT_BYTES else None
