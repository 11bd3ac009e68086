"""Check whether the parts of a bundle agree, which types cannot ensure. Findings never change the stored bundle."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args

import msgspec

from proto.proofs import evidence
from proto.proofs.bundle import Claim, ProofBundle, ReproFailsOnHeadClaim, ResourceDescriptor, Statement
from proto.proofs.primitives import ClaimStatus, IsoTimestamp, ProofTier, ProofVerdict, TestObservation
from proto.rfc3339 import parse_rfc3339

MAX_FINDINGS: Final = 100
LEDGER: Final = "predicate.ledger"  # the place of the bundle in a statement
_TOLERANCE: Final = 0.005  # of scores and rates, which are rounded
_BILLABLE_TIERS: Final = frozenset({ProofTier.A, ProofTier.B, ProofTier.C})


class Severity(StrEnum):
    """ERROR: the bundle contradicts itself. WARNING: a reader should check the bundle."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """A finding. `path` has the form `claims[0].evidence.killed`. `code` is a word for programs."""

    severity: Severity
    path: str
    message: str
    code: str


_Found = Iterator[Finding]


class _Context(NamedTuple):
    """The data with which the claims of a bundle are compared. `failing_tests`: the digests of the tests that failed
    without the patch, by the paths of the tests.
    """

    bundle: ProofBundle
    issued_at: datetime | None
    failing_tests: Mapping[str, set[str]]


def check(bundle: ProofBundle) -> list[Finding]:
    """At most MAX_FINDINGS, errors first."""
    found = list(_check_verdict(bundle))
    for at in repeated_claim_ids(bundle):
        found.append(_error(f"claims[{at}].claimId", "An earlier claim has this id.", "repeated"))
    found += _check_times("", bundle)
    context = _Context(bundle, parse_rfc3339(bundle.issued_at), _failing_tests(bundle))
    for at, claim in enumerate(bundle.claims):
        place = f"claims[{at}]"
        found += _check_times(place, claim)
        found += _check_claim(context, claim, place)
    return most_severe(found)


def check_statement(statement: Statement) -> list[Finding]:
    """The findings for the parts of a statement around its bundle: at most MAX_FINDINGS, errors first."""
    predicate, bundle = statement.predicate, statement.predicate.ledger
    found = list(_check_times("predicate", predicate, but="ledger"))
    said, shown = predicate.verification, "predicate.verification"
    for name, here, there in (
        ("tier", said.tier, bundle.tier),
        ("verdict", said.verdict, bundle.verdict),
        ("billable", said.billable, bundle.billable),
        ("specUri", said.spec_uri, bundle.spec_uri),
    ):
        if here != there:
            found.append(_error(f"{shown}.{name}", f"Differs from {name} of the bundle.", "contradiction"))
    if not any(_is_subject(one, bundle) for one in statement.subject):
        found.append(_warning("subject", "No digest matches the patch or the commit.", "unsupported"))
    for at, one in enumerate(statement.subject):
        if one.uri is msgspec.UNSET and one.digest is msgspec.UNSET:
            found.append(_warning(f"subject[{at}]", "Has neither a uri nor a digest.", "unsupported"))
    return most_severe(found)


def check_payload(value: ProofBundle | Statement) -> list[Finding]:
    """The findings for a bundle and for the statement around it: at most MAX_FINDINGS, errors first. Paths are relative
    to the payload.
    """
    if not isinstance(value, Statement):
        return check(value)
    return most_severe([*check_statement(value), *within(LEDGER, check(value.predicate.ledger))])


def within(place: str, findings: Iterable[Finding]) -> list[Finding]:
    """The findings of a bundle that is at `place` of its payload. `place` is empty if the bundle is the payload."""
    return [one._replace(path=f"{place}.{one.path}") if place else one for one in findings]


def most_severe(findings: Iterable[Finding]) -> list[Finding]:
    """At most MAX_FINDINGS, errors first."""
    return sorted(findings, key=lambda one: one.severity is Severity.WARNING)[:MAX_FINDINGS]


def _is_subject(one: ResourceDescriptor, bundle: ProofBundle) -> bool:
    digests = {} if one.digest is msgspec.UNSET else one.digest
    patch = bundle.subject.patch.diff_digest.removeprefix("sha256:")
    return digests.get("sha256") == patch or (
        bundle.subject.commit is not None and bundle.subject.commit in digests.values()
    )


def _failing_tests(bundle: ProofBundle) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for claim in bundle.claims:
        if isinstance(claim, ReproFailsOnHeadClaim):
            found.setdefault(claim.evidence.test_path, set()).add(claim.evidence.test_digest)
    return found


def repeated_claim_ids(bundle: ProofBundle) -> list[int]:
    """The positions of claims that have the id of an earlier claim."""
    first: dict[str, int] = {}
    return [at for at, claim in enumerate(bundle.claims) if first.setdefault(claim.claim_id, at) != at]


def _check_verdict(bundle: ProofBundle) -> _Found:
    is_void = bundle.tier is ProofTier.VOID
    if is_void != (bundle.verdict is ProofVerdict.VOID):
        yield _error("verdict", "If the tier or the verdict is VOID, both must be VOID.", "contradiction")
    if bundle.billable and (bundle.verdict is not ProofVerdict.PASSED or bundle.tier not in _BILLABLE_TIERS):
        yield _error("billable", "Only a bundle that PASSED in tier A, B or C is billable.", "contradiction")
    if bundle.verdict is not ProofVerdict.PASSED:
        return
    if not bundle.claims:
        yield _warning("claims", "A bundle that PASSED has no claims.", "unsupported")
    for at, claim in enumerate(bundle.claims):
        if claim.status is ClaimStatus.REFUTED:
            yield _error(f"claims[{at}].status", "A bundle that PASSED has a claim that is REFUTED.", "contradiction")


def _check_times(path: str, shape: Any, but: str = "") -> _Found:
    """Check that every time in `shape` exists in the calendar. Claims and the field `but` are checked by separate
    calls.
    """
    for place in _wrong_times(shape, but):
        yield _error(f"{path}.{place}" if path else place, "Is not a valid time.", "time")


def _wrong_times(shape: Any, but: str = "") -> Iterator[str]:
    """The places of invalid times, relative to `shape`."""
    for name, encoded, is_time in _fields_with_times(shape.__class__):
        value = getattr(shape, name)
        if value is None or name == but:
            continue
        if is_time:
            if parse_rfc3339(value) is None:
                yield encoded
        elif isinstance(value, list):
            for at, each in enumerate(value):
                yield from (f"{encoded}[{at}].{place}" for place in _wrong_times(each))
        else:
            yield from (f"{encoded}.{place}" for place in _wrong_times(value))


@cache
def _fields_with_times(shape: Any) -> tuple[tuple[str, str, bool], ...]:
    """The fields that are times (True) or contain times (False), with their names in Python and in JSON."""
    found = []
    for field in msgspec.structs.fields(shape):
        if field.name == "claims":
            continue
        is_time = field.type == IsoTimestamp or field.type == IsoTimestamp | None
        if is_time or any(_fields_with_times(each) for each in _shapes_in(field.type)):
            found.append((field.name, field.encode_name, is_time))
    return tuple(found)


def _shapes_in(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in get_args(annotation):
        yield from _shapes_in(argument)


def _check_claim(context: _Context, claim: Claim, place: str) -> _Found:
    recorded = parse_rfc3339(claim.recorded_at)
    if recorded is not None and context.issued_at is not None and recorded > context.issued_at:
        yield _warning(f"{place}.recordedAt", "Is later than the bundle was issued.", "order")
    checker = _CHECKERS.get(type(claim.evidence))
    if checker is not None:
        yield from checker(context, claim, claim.evidence, f"{place}.evidence")


def _check_repro_fails(_context: _Context, claim: Claim, shown: evidence.ReproFailsOnHead, place: str) -> _Found:
    if claim.status is ClaimStatus.SUPPORTED and shown.observed not in (
        TestObservation.FAILED,
        TestObservation.ERRORED,
    ):
        yield _error(f"{place}.observed", "The claim is SUPPORTED, but the test did not fail.", "contradiction")
    yield from _check_exit_code(shown.observed, shown.exit_code, place)


def _check_repro_passes(context: _Context, claim: Claim, shown: evidence.ReproPassesPostPatch, place: str) -> _Found:
    yield from _check_patch(context, shown.patch_digest, place)
    if claim.status is ClaimStatus.SUPPORTED and shown.observed is not TestObservation.PASSED:
        yield _error(f"{place}.observed", "The claim is SUPPORTED, but the test did not pass.", "contradiction")
    yield from _check_exit_code(shown.observed, shown.exit_code, place)
    failed = context.failing_tests.get(shown.test_path)
    if failed is not None and shown.test_digest not in failed:
        yield _error(f"{place}.testDigest", "Is not the test that failed before the patch.", "contradiction")


def _check_exit_code(observed: TestObservation, code: int | None, place: str) -> _Found:
    if (observed is TestObservation.PASSED and code not in (0, None)) or (
        observed is TestObservation.FAILED and code == 0
    ):
        yield _warning(
            f"{place}.exitCode", f"Exit code {code} is unusual for a test that {observed.value}.", "contradiction"
        )


def _check_suite(_context: _Context, claim: Claim, shown: evidence.SuiteGreen, place: str) -> _Found:
    if claim.status is ClaimStatus.SUPPORTED and not shown.passed:
        yield _error(f"{place}.passed", "The claim is SUPPORTED, but the suite did not pass.", "contradiction")
    if shown.passed and shown.tests_failed:
        yield _error(f"{place}.testsFailed", "The suite passed, but tests failed.", "contradiction")
    if shown.tests_run is not None and (shown.tests_failed or 0) > shown.tests_run:
        yield _error(f"{place}.testsFailed", "More tests failed than ran.", "sum")
    if shown.passed and shown.scope == "none":
        yield _warning(f"{place}.scope", "Nothing was run.", "unsupported")


def _check_mutation(_context: _Context, claim: Claim, shown: evidence.MutationPinScore, place: str) -> _Found:
    if shown.killed + shown.survived + shown.equivalent + shown.invalid > shown.generated:
        yield _error(f"{place}.generated", "Is less than killed + survived + equivalent + invalid.", "sum")
    decided = shown.killed + shown.survived
    if shown.score is not None and (not decided or abs(shown.score - shown.killed / decided) > _TOLERANCE):
        yield _error(f"{place}.score", "Is not killed / (killed + survived).", "sum")
    if claim.status is ClaimStatus.SUPPORTED and (shown.score is None or shown.score < shown.threshold):
        yield _error(f"{place}.score", "The claim is SUPPORTED, but the score is below the threshold.", "contradiction")


def _check_flakes(_context: _Context, claim: Claim, shown: evidence.FlakeFreedom, place: str) -> _Found:
    if shown.failures > shown.samples:
        yield _error(f"{place}.failures", "Is more than the number of samples.", "sum")
    elif shown.flake_rate_pct is not None and shown.samples:
        rate = 100 * shown.failures / shown.samples
        if abs(shown.flake_rate_pct - rate) > 100 * _TOLERANCE:
            yield _warning(f"{place}.flakeRatePct", "Is not 100 * failures / samples.", "sum")
    if claim.status is ClaimStatus.SUPPORTED and shown.verdict == "FLAKY" and not shown.explained:
        yield _error(f"{place}.verdict", "The claim is SUPPORTED, but the test is FLAKY.", "contradiction")
    yield from _check_order(place, ("observedFrom", shown.observed_from), ("observedUntil", shown.observed_until))


def _check_containment(context: _Context, claim: Claim, shown: evidence.BlastRadiusContainment, place: str) -> _Found:
    if claim.status is ClaimStatus.SUPPORTED and shown.violations:
        yield _error(f"{place}.violations", "The claim is SUPPORTED, but there are violations.", "contradiction")
    patch = context.bundle.subject.patch
    for name, here, there in (
        ("addedLines", shown.added_lines, patch.added_lines),
        ("removedLines", shown.removed_lines, patch.removed_lines),
    ):
        if here != there:
            yield _warning(f"{place}.{name}", f"Differs from subject.patch.{name}.", "contradiction")


def _check_approver(_context: _Context, claim: Claim, shown: evidence.ApproverIdentity, place: str) -> _Found:
    if shown.human_approval and shown.received_approvals < shown.required_approvals:
        yield _error(f"{place}.receivedApprovals", "Is less than requiredApprovals.", "contradiction")
    if claim.status is ClaimStatus.SUPPORTED and shown.human_approval and shown.approver is None:
        yield _error(f"{place}.approver", "A human approved, but the human is not named.", "contradiction")


def _check_durability(_context: _Context, _claim: Claim, shown: evidence.DurabilityWindow, place: str) -> _Found:
    yield from _check_order(place, ("openedAt", shown.opened_at), ("closesAt", shown.closes_at))
    yield from _check_order(place, ("openedAt", shown.opened_at), ("closedAt", shown.closed_at))
    if shown.verdict == "DURABLE" and (shown.reverted or shown.original_fingerprint_recurrences):
        yield _error(
            f"{place}.verdict", "Is DURABLE, but the issue came back, or the change was reverted.", "contradiction"
        )
    if shown.state == "OPEN" and shown.verdict != "PENDING":
        yield _warning(f"{place}.verdict", "Must be PENDING while the window is OPEN.", "order")


def _check_slice(_context: _Context, _claim: Claim, shown: evidence.StateSlice, place: str) -> _Found:
    if shown.withheld_by_policy > shown.values_withheld:
        yield _error(f"{place}.withheldByPolicy", "Is more than valuesWithheld.", "sum")
    if shown.probe is not None and shown.probe.captures_taken > shown.probe.max_captures:
        yield _error(f"{place}.probe.capturesTaken", "Is more than maxCaptures.", "sum")


def _check_diff(context: _Context, claim: Claim, shown: evidence.BehavioralDiff, place: str) -> _Found:
    yield from _check_patch(context, shown.patch_digest, place)
    if shown.intended + shown.unintended + shown.unclassified != shown.diffs_found:
        yield _error(f"{place}.diffsFound", "Is not intended + unintended + unclassified.", "sum")
    chosen = shown.selection
    if not chosen.replayed <= chosen.selected <= chosen.candidate_pool:
        yield _error(
            f"{place}.selection",
            "replayed must not exceed selected, and selected must not exceed candidatePool.",
            "sum",
        )
    if claim.status is ClaimStatus.SUPPORTED and shown.unintended:
        yield _error(f"{place}.unintended", "The claim is SUPPORTED, but differences are UNINTENDED.", "contradiction")
    yield from _check_order(
        f"{place}.selection", ("recordedFrom", chosen.recorded_from), ("recordedUntil", chosen.recorded_until)
    )


def _check_divergence(_context: _Context, _claim: Claim, shown: evidence.DivergenceLocalization, place: str) -> _Found:
    if shown.status == "LOCALIZED" and shown.first_divergence is None:
        yield _error(f"{place}.firstDivergence", "Is missing, but the status is LOCALIZED.", "contradiction")
    if shown.status == "NO_DIVERGENCE" and (shown.divergence_count or shown.first_divergence is not None):
        yield _error(f"{place}.divergenceCount", "Must be 0 for the status NO_DIVERGENCE.", "contradiction")
    if shown.matched_frames > min(shown.reference_frames, shown.candidate_frames):
        yield _error(f"{place}.matchedFrames", "Is more than referenceFrames or candidateFrames.", "sum")


def _check_origin(context: _Context, _claim: Claim, shown: evidence.PatchOrigin, place: str) -> _Found:
    yield from _check_patch(context, shown.patch_digest, place)
    if shown.externally_authored and shown.verifier_independence.patch_authored_by_issuer:
        message = "Is true, but verifierIndependence.patchAuthoredByIssuer is also true."
        yield _error(f"{place}.externallyAuthored", message, "contradiction")


def _check_mitigation(_context: _Context, _claim: Claim, shown: evidence.MitigationApplied, place: str) -> _Found:
    yield from _check_order(place, ("appliedAt", shown.applied_at), ("expiresAt", shown.expires_at))
    yield from _check_order(place, ("appliedAt", shown.applied_at), ("withdrawnAt", shown.withdrawn_at))
    if shown.approval.human_approval and shown.approval.request_id is None:
        yield _warning(f"{place}.approval.requestId", "A human approved, but no request is named.", "unsupported")
    if shown.approval.human_approval and shown.approval.received_approvals < shown.approval.required_approvals:
        yield _error(f"{place}.approval.receivedApprovals", "Is less than requiredApprovals.", "contradiction")


def _check_patch(context: _Context, digest: str, place: str) -> _Found:
    if digest != context.bundle.subject.patch.diff_digest:
        yield _error(f"{place}.patchDigest", "Differs from subject.patch.diffDigest.", "contradiction")


def _check_order(place: str, *named: tuple[str, str | None]) -> _Found:
    for (_, first), (name, then) in pairwise(named):
        begin, end = parse_rfc3339(first or ""), parse_rfc3339(then or "")
        if begin is not None and end is not None and begin > end:
            yield _error(f"{place}.{name}", f"Is before {named[0][0]}.", "order")


def _error(path: str, message: str, code: str) -> Finding:
    return Finding(Severity.ERROR, path, message, code)


def _warning(path: str, message: str, code: str) -> Finding:
    return Finding(Severity.WARNING, path, message, code)


_CHECKERS: Final[MappingProxyType[type[Any], Callable[..., Iterable[Finding]]]] = MappingProxyType(
    {
        evidence.ReproFailsOnHead: _check_repro_fails,
        evidence.ReproPassesPostPatch: _check_repro_passes,
        evidence.SuiteGreen: _check_suite,
        evidence.MutationPinScore: _check_mutation,
        evidence.FlakeFreedom: _check_flakes,
        evidence.BlastRadiusContainment: _check_containment,
        evidence.ApproverIdentity: _check_approver,
        evidence.DurabilityWindow: _check_durability,
        evidence.StateSlice: _check_slice,
        evidence.BehavioralDiff: _check_diff,
        evidence.DivergenceLocalization: _check_divergence,
        evidence.PatchOrigin: _check_origin,
        evidence.MitigationApplied: _check_mitigation,
    }
)
