"""`POST .../proof-bundles` and `.../proof-bundles/validate`: submit a bundle, or check one."""

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import JSON_TYPE, BadRequest, Issue, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Created, route
from chassis.http.route import Body, Tag
from chassis.http.validation import Issues
from control.approvals.proofs import bodies, issuers, references, store
from control.approvals.proofs.bodies import (
    BundleLinks,
    FindingBody,
    ProofBundleRecord,
    ValidationResult,
    finding_bodies,
    signature_body,
    summary_body,
)
from control.approvals.proofs.intake import (
    INVALID,
    MEDIA_TYPES,
    Intake,
    ReceivedBody,
    find_distrust_at,
)
from control.approvals.proofs.references import SubmittedBundle
from control.approvals.proofs.tables import IssuerKey, LinkKind
from control.http.context import RequestSlots
from control.routing.arguments import Handlers, Transaction, begin
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.bundle import ProofBundle, Statement
from proto.proofs.semantics import Finding, Severity, most_severe, within


def project_of(caller: AuthorizationContext) -> tuple[int, str]:
    """Id and slug of the project in the path."""
    if caller.project_id is None or caller.project_slug is None:
        raise NotFound
    return caller.project_id, caller.project_slug


async def load_record(connection: AsyncConnection, stored: sa.Row[Any], now: datetime) -> ProofBundleRecord:
    """A stored bundle with its findings and links, without its claims."""
    signer_id = stored.issuer_key_id
    findings, links = await store.read_findings(connection, stored.id), await store.list_links(connection, stored.id)
    return summary_body(
        ProofBundleRecord,
        stored,
        None if signer_id is None else await issuers.load_key(connection, stored.org_id, signer_id),
        now,
        errors=finding_bodies(findings, Severity.ERROR),
        warnings=finding_bodies(findings, Severity.WARNING),
        links=BundleLinks(
            stored.issue_id,
            [link.target for link in links if link.kind is LinkKind.APPROVAL_REQUEST],
            [link.target for link in links if link.kind is LinkKind.TRACE],
        ),
    )


_FORMS: Final = "At most 4 MiB. A bundle, an in-toto Statement with a bundle, or a DSSE envelope with either of them."
BUNDLE: Final = Body(
    {
        JSON_TYPE: ProofBundle,
        dsse.BUNDLE_TYPE: ProofBundle,
        dsse.STATEMENT_MEDIA_TYPE: Statement,
        dsse.ENVELOPE_TYPE: dsse.EnvelopeBody,
    },
    _FORMS,
    example=bodies.BUNDLE,
    examples={dsse.STATEMENT_MEDIA_TYPE: bodies.STATEMENT, dsse.ENVELOPE_TYPE: bodies.ENVELOPE},
)
ANY_BUNDLE: Final = Body(
    dict.fromkeys(MEDIA_TYPES),
    f"{_FORMS} A body that does not match the schema is accepted, and the findings describe its faults.",
)
PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/proof-bundles"


@dataclass(frozen=True, slots=True)
class ProofSubmission(Handlers):
    """Handlers of submitted bundles. `max_bytes`: maximum size of an organization's bundles (0: no limit)."""

    TAG: ClassVar = Tag("proof-bundles", "Signed records about code changes, with claims and evidence.")
    intake: Intake
    slots: RequestSlots
    max_bytes: int
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    @route("POST", PATH, bearer(Scope.PROOFS_WRITE), body=BUNDLE, errors=(409,))
    async def submit_proof_bundle(
        self, request: web.Request, caller: AuthorizationContext
    ) -> Created[ProofBundleRecord] | ProofBundleRecord:
        """Submit a bundle.

        A DSSE envelope is verified with the keys at `/orgs/{orgSlug}/proof-issuers` before its payload is parsed. 400
        if no signature counts. Other bodies are stored as not signed. The slugs of the subject must be the slugs of the
        path. A bundle that contradicts itself or stored data is stored with findings. The same bytes again are
        answered with 200, the same `bundleId` with other bytes with 409. An unsigned bundle never takes the `bundleId`
        of a verified one. A verified bundle takes the `bundleId` of an unsigned one, which stays stored and is found
        with `verified=false`.
        """
        now, (project_id, slug) = self.now(), project_of(caller)
        async with self._received(request, caller) as received:
            digest = hashlib.sha256(received.raw).digest()
            async with self.context.database.read() as connection:
                keys = await issuers.list_keys(connection, caller.org_id)
                known = await store.find_by_digest(connection, project_id, digest, received.media_type)
                if known is not None:
                    return await load_record(connection, known, now)
            read = await self.intake.read(received, keys, now)
            _require_subject(read, caller.org_slug, slug)
            origin = {
                "org_id": caller.org_id,
                "project_id": project_id,
                "submitted_by": caller.principal_id,
                "received_at": now,
                "media_type": received.media_type,
                "digest": digest,
                "size": len(received.raw),
                "body": received.raw,
            }
            return await self._store(request, read, origin, now)

    @route("POST", PATH + "/validate", bearer(Scope.PROOFS_READ, Scope.PROOFS_WRITE), body=ANY_BUNDLE)
    async def validate_proof_bundle(self, request: web.Request, caller: AuthorizationContext) -> ValidationResult:
        """Check a bundle and store nothing.

        The findings are the findings of `submitProofBundle`. An invalid bundle is answered with 200 and `valid` false.
        If no signature of an envelope counts, nothing else is checked. Whether the `bundleId` is free is not checked.
        """
        now, (_, slug) = self.now(), project_of(caller)
        async with self._received(request, caller) as received:
            async with self.context.database.read() as connection:
                keys = await issuers.list_keys(connection, caller.org_id)
            try:
                read = await self.intake.read(received, keys, now)
                _require_subject(read, caller.org_slug, slug)
            except BadRequest as error:
                faults = [FindingBody(one.path, one.message, one.code) for one in error.details or ()]
                return ValidationResult(False, None, faults, [])
            async with self.context.database.read() as connection:
                _, findings = await _compare(connection, caller, read, now)
        errors, warnings = (finding_bodies(findings, severity) for severity in (Severity.ERROR, Severity.WARNING))
        return ValidationResult(not errors, signature_body(read.signer, now), errors, warnings)

    @asynccontextmanager
    async def _received(self, request: web.Request, caller: AuthorizationContext) -> AsyncIterator[ReceivedBody]:
        """Receive the body, and then hold one of the caller's slots. A caller that sends slowly holds no slot."""
        whose = caller.org_id, caller.principal_id
        async with self.intake.receive(request, caller.principal_id) as received, self.slots.taken(whose):
            yield received

    async def _store(
        self, request: web.Request, read: SubmittedBundle, origin: dict[str, Any], now: datetime
    ) -> Created[ProofBundleRecord] | ProofBundleRecord:
        """Store a bundle. `origin`: the columns that say where the bundle comes from."""
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            _require_signer(read, await issuers.list_keys(connection, caller.org_id), now)
            issue_id, findings = await _compare(connection, caller, read, now)
            columns = origin | {"issue_id": issue_id} | _columns(read, findings)
            stored, is_new = await store.create(connection, columns, read.distinct_links, self.max_bytes)
            record = await load_record(connection, stored, now)
            if is_new:
                await _record(transaction, stored)
        return Created(record) if is_new else record


async def _compare(
    connection: AsyncConnection, caller: AuthorizationContext, read: SubmittedBundle, now: datetime
) -> tuple[str | None, list[Finding]]:
    """The id of the issue that the bundle is about, and the findings where the bundle contradicts itself or stored
    data.
    """
    project_id, slug = project_of(caller)
    issue = await references.find_subject(connection, project_id, slug, read.bundle.subject)
    disagreements = references.check_issue(read.bundle.subject, issue, slug)
    if Scope.APPROVALS_READ in caller.scopes:  # other callers learn nothing about approval requests
        requests = await references.find_requests(connection, caller.org_id, read.distinct_links, now)
        disagreements += references.check_approvals(read, requests)
    findings = most_severe([*read.contradictions, *within(read.place, disagreements)])
    return None if issue is None else issue.id, findings


def _columns(read: SubmittedBundle, findings: list[Finding]) -> dict[str, Any]:
    """The columns of `proof_bundles` for a bundle and its findings."""
    bundle, subject = read.bundle, read.bundle.subject
    errors = sum(one.severity is Severity.ERROR for one in findings)
    return {
        "id": new_id("prf"),
        "bundle_id": bundle.bundle_id,
        "is_verified": read.signer is not None,
        "issuer_key_id": None if read.signer is None else read.signer.id,
        "key_id": None if read.signer is None else read.signer.key_id,
        "issued_at": bundle.issued_at,
        "issuer": _column_text(bundle.issuer.id),
        "tier": bundle.tier.value,
        "verdict": bundle.verdict.value,
        "billable": bundle.billable,
        "claims": len(read.links),
        "issue_short_id": _column_text(subject.issue_short_id),
        "title": _column_text(subject.title),
        "run_id": _column_text(subject.run_id),
        "proposal_id": _column_text(subject.proposal_id),
        "commit": None if subject.commit is None else _column_text(subject.commit),
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": msgspec.json.encode(findings),
    }


def _column_text(text: str) -> str:
    """The text without NUL, which no text column of PostgreSQL can hold."""
    return text.replace("\x00", "\ufffd")


def _require_subject(read: SubmittedBundle, org_slug: str, project_slug: str) -> None:
    """Raises BadRequest for a bundle about another project."""
    issues, subject = Issues(), read.bundle.subject
    for name, said, slug in (
        ("orgSlug", subject.org_slug, org_slug),
        ("projectSlug", subject.project_slug, project_slug),
    ):
        if said != slug:
            issues.add(f"{read.path}.subject.{name}", f"Must be {slug}, as in the path.", "mismatch")
    issues.raise_if_any(INVALID)


def _require_signer(read: SubmittedBundle, keys: Sequence[IssuerKey], now: datetime) -> None:
    """Raises BadRequest if the signer's key was revoked or changed after its signature was verified."""
    if read.signer is None:
        return
    current = next((one for one in keys if one.id == read.signer.id), None)
    if current is None or find_distrust_at(current, read.bundle.issuer, read.bundle.issued_at, now) is not None:
        message = "The key was revoked or changed while the bundle was submitted. Send the bundle again."
        raise BadRequest(INVALID, [Issue("body.signatures", message, "not_verified")])


async def _record(transaction: Transaction, stored: sa.Row[Any]) -> None:
    data = {
        "bundleId": stored.bundle_id,
        "digest": bytes(stored.digest).hex(),
        "keyId": stored.key_id,
        "tier": stored.tier,
        "verdict": stored.verdict,
        "billable": stored.billable,
        "issueId": stored.issue_id,
        "errors": stored.errors,
    }
    await transaction.record("proof.submit", stored.id, data)
