"""A stored bundle with what belongs to it, as it is answered."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from control.approvals.proofs import repository
from control.approvals.proofs.model import IssuerKey, StoredBundle
from control.approvals.proofs.schemas import ProofBundleRecord, record_body


def project_of(caller: AuthorizationContext) -> tuple[int, str]:
    """Id and slug of the project in the path."""
    if caller.project_id is None or caller.project_slug is None:
        raise NotFound
    return caller.project_id, caller.project_slug


async def load_record(
    connection: AsyncConnection, stored: StoredBundle, keys: Sequence[IssuerKey], now: datetime
) -> ProofBundleRecord:
    """The bundle with its findings and links. `keys`: of the organization."""
    findings = await repository.read_findings(connection, stored)
    links = await repository.list_links(connection, stored)
    return record_body(stored, key_of(stored, keys), findings, links, now)


def key_of(stored: StoredBundle, keys: Sequence[IssuerKey]) -> IssuerKey | None:
    """The key that has signed the bundle."""
    return next((one for one in keys if one.id == stored.issuer_key_id), None)
