"""`POST .../proof-bundles` and `.../proof-bundles/validate`: submit a bundle, or check one."""

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import BadRequest, Issue, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import JSON_TYPE, Body, Operation, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.approvals.proofs import examples, issuers, references, store
from control.approvals.proofs.bodies import (
    FindingBody,
    ProofBundleRecord,
    ValidationResult,
    finding_bodies,
    record_body,
    signature_body,
)
from control.approvals.proofs.intake import (
    INVALID,
    MEDIA_TYPES,
    Intake,
    ReceivedBody,
    find_distrust_at,
    load_keys,
)
from control.approvals.proofs.model import IssuerKey, Link, Origin, StoredBundle
from control.approvals.proofs.references import SubmittedBundle
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.request_slots import RequestSlots
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.bundle import ProofBundle, Statement
from proto.proofs.semantics import Finding, Severity, most_severe, within


def project_of(caller: AuthorizationContext) -> tuple[int, str]:
    """Id and slug of the project in the path."""
    if caller.project_id is None or caller.project_slug is None:
        raise NotFound
    return caller.project_id, caller.project_slug


async def load_record(
    connection: AsyncConnection, stored: StoredBundle, keys: Sequence[IssuerKey], now: datetime
) -> ProofBundleRecord:
    """The bundle with its findings and links. `keys`: of the organization."""
    findings = await store.read_findings(connection, stored)
    links = await store.list_links(connection, stored)
    return record_body(stored, key_of(stored, keys), findings, links, now)


def key_of(stored: StoredBundle, keys: Sequence[IssuerKey]) -> IssuerKey | None:
    """The key that has signed the bundle."""
    return next((one for one in keys if one.id == stored.issuer_key_id), None)


TAG: Final = Tag("proof-bundles", "Signed records about code changes, with claims and evidence (specification 2.8).")
_FORMS: Final = "At most 4 MiB. A bundle, an in-toto Statement with one, or a DSSE envelope with either of them."
SUBMIT: Final = Operation(
    "submitProofBundle",
    TAG,
    (
        ResponseSpec("The bundle was stored.", json_content(ProofBundleRecord), 201),
        ResponseSpec("The same bytes were stored before.", json_content(ProofBundleRecord)),
    ),
    body=Body(
        {
            JSON_TYPE: ProofBundle,
            dsse.BUNDLE_TYPE: ProofBundle,
            dsse.STATEMENT_MEDIA_TYPE: Statement,
            dsse.ENVELOPE_TYPE: dsse.EnvelopeBody,
        },
        _FORMS,
        example=examples.BUNDLE,
        examples={dsse.STATEMENT_MEDIA_TYPE: examples.STATEMENT, dsse.ENVELOPE_TYPE: examples.ENVELOPE},
    ),
    error_statuses=(409,),
)
VALIDATE: Final = Operation(
    "validateProofBundle",
    TAG,
    (ResponseSpec("What handing it in would find.", json_content(ValidationResult)),),
    body=Body(dict.fromkeys(MEDIA_TYPES), f"{_FORMS} Also one whose shape is wrong."),
)


class _Findings(NamedTuple):
    """What is stored with a bundle besides its bytes."""

    issue_id: str | None
    links: list[Link]
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class ProofSubmission:
    """Handlers of what is handed in. `max_bytes`: of the bundles of an organization; 0: no limit."""

    context: HandlerContext
    intake: Intake
    slots: RequestSlots
    max_bytes: int
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        path = "/orgs/{orgSlug}/projects/{projectSlug}/proof-bundles"
        either = bearer(Scope.PROOFS_READ, Scope.PROOFS_WRITE)
        return [
            Route("POST", path, self.submit, bearer(Scope.PROOFS_WRITE), operation=SUBMIT),
            Route("POST", path + "/validate", self.validate, either, operation=VALIDATE),
        ]

    async def submit(self, request: web.Request) -> web.StreamResponse:
        """Hand in a bundle.

        A DSSE envelope is verified with the keys at `/orgs/{orgSlug}/proof-issuers` before its payload is parsed; 400
        if no signature counts. Other bodies are stored as not signed. The slugs of the subject must be those of the
        path. A bundle that contradicts itself, or what is stored here, is stored with findings. The same bytes again
        answer 200; the same `bundleId` with other bytes 409. An unsigned bundle never takes the `bundleId` of a
        verified one; a verified bundle takes that of an unsigned one, which is kept and found with `verified=false`.
        """
        caller, now = authorization_context(request), self.now()
        project_id, slug = project_of(caller)
        async with self._received(request, caller) as received:
            digest = hashlib.sha256(received.raw).digest()
            async with self.context.database.read() as connection:
                keys = await issuers.list_keys(connection, caller.org_id)
                known = await store.find_by_digest(connection, project_id, digest, received.media_type)
                if known is not None:
                    return json_response(await load_record(connection, known, keys, now))
            read = await self.intake.read(received, load_keys(keys), now)
            _require_subject(read, caller.org_slug, slug)
            origin = Origin(
                caller.org_id, project_id, caller.principal_id, now, received.media_type, digest, len(received.raw)
            )
            return await self._store(request, read, origin, received.raw)

    async def validate(self, request: web.Request) -> web.StreamResponse:
        """Check a bundle and store nothing.

        The findings are those of `submitProofBundle`. Whatever is wrong with the bundle, the answer is 200 and `valid`
        false. The signature of an envelope must count, or nothing else is looked at. Whether the `bundleId` is free is
        not looked at.
        """
        caller, now = authorization_context(request), self.now()
        _, slug = project_of(caller)
        async with self._received(request, caller) as received:
            async with self.context.database.read() as connection:
                keys = await issuers.list_keys(connection, caller.org_id)
            try:
                read = await self.intake.read(received, load_keys(keys), now)
                _require_subject(read, caller.org_slug, slug)
            except BadRequest as error:
                return json_response(_refused(error))
            async with self.context.database.read() as connection:
                found = await _find(connection, caller, read, now)
        errors = finding_bodies(found.findings, Severity.ERROR)
        warnings = finding_bodies(found.findings, Severity.WARNING)
        return json_response(ValidationResult(not errors, signature_body(read.signer, now), errors, warnings))

    @asynccontextmanager
    async def _received(self, request: web.Request, caller: AuthorizationContext) -> AsyncIterator[ReceivedBody]:
        """The body, and then one of the slots of the caller: who sends slowly has none."""
        whose = caller.org_id, caller.principal_id
        async with self.intake.receive(request, caller.principal_id) as received, self.slots.taken(whose):
            yield received

    async def _store(
        self, request: web.Request, read: SubmittedBundle, origin: Origin, raw: bytes
    ) -> web.StreamResponse:
        now = origin.received_at
        async with self.context.write_transaction(request) as (connection, caller):
            keys = await issuers.list_keys(connection, caller.org_id)
            _require_signer(read, keys, now)
            found = await _find(connection, caller, read, now)
            stored = _stored(read, origin, found)
            known = await store.create(connection, stored, raw, found.findings, found.links, self.max_bytes)
            if known is not None:
                return json_response(await load_record(connection, known, keys, now))
            await _record_audit(connection, request, caller, stored)
        key = key_of(stored, keys)
        return json_response(record_body(stored, key, found.findings, sorted(found.links), now), status=201)


async def _find(
    connection: AsyncConnection, caller: AuthorizationContext, read: SubmittedBundle, now: datetime
) -> _Findings:
    project_id, slug = project_of(caller)
    subject, links = read.subject, read.distinct_links
    issue = await references.find_subject(connection, project_id, slug, subject)
    disagreements = references.check_issue(subject, issue, slug)
    if Scope.APPROVALS_READ in caller.scopes:  # others learn nothing of approval requests
        requests = await references.find_requests(connection, caller.org_id, links, now)
        disagreements += references.check_approvals(read, requests)
    findings = most_severe([*read.contradictions, *within(read.place, disagreements)])
    return _Findings(None if issue is None else issue.id, links, findings)


def _stored(read: SubmittedBundle, origin: Origin, found: _Findings) -> StoredBundle:
    subject = read.subject
    errors = sum(one.severity is Severity.ERROR for one in found.findings)
    return StoredBundle(
        id=new_id("prf"),
        bundle_id=read.bundle_id,
        origin=origin,
        issuer_key_id=None if read.signer is None else read.signer.id,
        key_id=None if read.signer is None else read.signer.key_id,
        issued_at=read.issued_at,
        issuer=_column_text(read.issuer.id),
        tier=read.tier.value,
        verdict=read.verdict.value,
        billable=read.billable,
        claims=len(read.links),
        issue_id=found.issue_id,
        issue_short_id=_column_text(subject.issue_short_id),
        title=_column_text(subject.title),
        run_id=_column_text(subject.run_id),
        proposal_id=_column_text(subject.proposal_id),
        commit=None if subject.commit is None else _column_text(subject.commit),
        errors=errors,
        warnings=len(found.findings) - errors,
    )


def _column_text(text: str) -> str:
    """Without NUL, which PostgreSQL stores in no text."""
    return text.replace("\x00", "\ufffd")


def _require_subject(read: SubmittedBundle, org_slug: str, project_slug: str) -> None:
    """Raises BadRequest for a bundle about another project."""
    issues, subject = Issues(), read.subject
    for name, said, slug in (
        ("orgSlug", subject.org_slug, org_slug),
        ("projectSlug", subject.project_slug, project_slug),
    ):
        if said != slug:
            issues.add(f"{read.path}.subject.{name}", f"Must be {slug}, as in the path.", "mismatch")
    issues.raise_if_any(INVALID)


def _require_signer(read: SubmittedBundle, keys: Sequence[IssuerKey], now: datetime) -> None:
    """Raises BadRequest if the key that has signed does not count any more, since its signature was verified."""
    if read.signer is None:
        return
    current = next((one for one in keys if one.id == read.signer.id), None)
    if current is None or find_distrust_at(current, read.issuer, read.issued_at, now) is not None:
        message = "The key was revoked or changed while the bundle was handed in. Send it again."
        raise BadRequest(INVALID, [Issue("body.signatures", message, "not_verified")])


def _refused(error: BadRequest) -> ValidationResult:
    errors = [FindingBody(one.path, one.message, one.code) for one in error.details or ()]
    return ValidationResult(False, None, errors, [])


async def _record_audit(
    connection: AsyncConnection, request: web.Request, caller: AuthorizationContext, stored: StoredBundle
) -> None:
    data = {
        "bundleId": stored.bundle_id,
        "digest": stored.origin.digest.hex(),
        "keyId": stored.key_id,
        "tier": stored.tier,
        "verdict": stored.verdict,
        "billable": stored.billable,
        "issueId": stored.issue_id,
        "errors": stored.errors,
    }
    await record(connection, caller, "proof.submit", stored.id, data, request_id(request))
