"""The evidence of each kind of claim (specification 2.8)."""

from typing import Annotated, Literal

from msgspec import Meta

from proto.proofs.primitives import (
    ActorKind,
    Amount,
    AuthorKind,
    Count,
    Detail600,
    Integer,
    IsoTimestamp,
    Percent,
    PercentDelta,
    PositiveInteger,
    PositiveNumber,
    Ratio,
    RatioDelta,
    Sha256Digest,
    Shape,
    TestObservation,
    Text40,
    Text60,
    Text80,
    Text120,
    Text200,
    Text300,
    Text400,
    Text512,
    Text600,
    Text1000,
    Text1024,
    Text2000,
)


class Qualification(Shape, frozen=True):
    """The evidence that a failing test concerns the issue."""

    outcome: Text120
    code: Text120
    reason: Text1000
    attributed_to_issue: bool


class ReproFailsOnHead(Shape, frozen=True):
    """A test that reproduces the issue fails without the patch."""

    test_path: Text1024
    test_digest: Sha256Digest
    command: Text2000
    base_commit: Text80 | None
    observed: TestObservation
    exit_code: Integer | None
    duration_ms: Count | None
    qualification: Qualification


class ReproPassesPostPatch(Shape, frozen=True):
    """The same test passes with the patch."""

    test_path: Text1024
    test_digest: Sha256Digest
    patch_digest: Sha256Digest
    command: Text2000
    observed: TestObservation
    exit_code: Integer | None
    duration_ms: Count | None


class SuiteGreen(Shape, frozen=True):
    """The test suite passes."""

    scope: Literal["full", "affected", "none"]
    command: Text2000 | None
    passed: bool
    exit_code: Integer | None
    duration_ms: Count
    tests_run: Count | None
    tests_failed: Count | None
    deciding_test: Text512 | None


class EquivalentMutant(Shape, frozen=True):
    """A mutant that behaves like the original."""

    file: Text1024
    line: Integer
    operator: Text80
    detector: Text80


class MutationPinScore(Shape, frozen=True):
    """How many mutants of the changed code the tests find."""

    score: Ratio | None
    threshold: Ratio
    generated: Count
    killed: Count
    survived: Count
    equivalent: Count
    invalid: Count
    arid_suppressed: Count
    equivalents: Annotated[list[EquivalentMutant], Meta(max_length=50)]
    mutant_set_hash: Sha256Digest | None
    operators: Annotated[list[Text80], Meta(max_length=64)]
    budget_cap_reached: bool
    cost_cents: Amount
    sandbox_seconds: Amount
    scoped_to_diff: bool


class FlakeFreedom(Shape, frozen=True):
    """The deciding test does not fail at random."""

    deciding_test: Text512
    verdict: Literal["STABLE", "FLAKY", "UNKNOWN"]
    samples: Count
    failures: Count
    flake_rate_pct: Percent | None
    window_days: PositiveInteger
    observed_from: IsoTimestamp | None
    observed_until: IsoTimestamp | None
    explained: bool
    explanation: Text1000 | None


class BlastRadiusContainment(Shape, frozen=True):
    """The patch touches only permitted files."""

    paths_touched: Annotated[list[Text1024], Meta(max_length=500)]
    paths_permitted: Annotated[list[Text1024], Meta(max_length=500)]
    violations: Annotated[list[Text1024], Meta(max_length=500)]
    derived_from: Text200
    files_changed: Count
    added_lines: Count
    removed_lines: Count


class NoiseBand(Shape, frozen=True):
    """The range of differences that are only noise."""

    known: bool
    source: Text200
    samples: Integer
    band_pct: Percent | None
    transition_pct: PercentDelta | None
    inside_band: bool
    min_reportable_delta_pp: Percent


class ResourceEnvelope(Shape, frozen=True):
    """The sandbox in which the change was tried."""

    cpus: PositiveNumber | None
    memory_mb: PositiveInteger | None
    hard_kill_ms: PositiveInteger | None
    wall_clock_ms: Count
    active_ms: Count
    headroom_ratio: Ratio | None
    image_digest: Text200 | None
    infra_error_class: Text80
    sandbox_provider: Text120
    network_isolation: Text40
    egress_allowlist: Annotated[list[Text300], Meta(max_length=100)]
    noise_band: NoiseBand


class Agent(Shape, frozen=True):
    """The agent that wrote a change."""

    id: Text200
    name: Text200
    version: Text80 | None
    origin: Literal["internal", "external"]


class ModelAttribution(Shape, frozen=True):
    """The person or the model that wrote the change."""

    author_kind: AuthorKind
    agent: Agent
    model_id: Text200 | None
    model_provider: Text120 | None
    effort: Text80 | None
    seed: Integer | None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None
    prompt_prefix_hash: Sha256Digest | None
    serving_determinism: Literal["NOT_CLAIMED"]


class Approver(Shape, frozen=True):
    """The approver."""

    principal_id: Text200
    display_name: Text200
    kind: ActorKind
    approved_at: IsoTimestamp
    authenticated_by: Text120


class ActChainLink(Shape, frozen=True):
    """One actor of a chain of delegation."""

    actor_id: Text200
    actor_kind: ActorKind
    actor_name: Text200
    on_behalf_of: Text200 | None
    delegation_id: Text200 | None
    jti: Text200 | None
    audience: Text300 | None
    scopes: Annotated[list[Text120], Meta(max_length=64)]
    issued_at: IsoTimestamp | None
    expires_at: IsoTimestamp | None


class ApproverIdentity(Shape, frozen=True):
    """The approver of the change, and the person on whose behalf the approver acted."""

    approver: Approver | None
    act_chain: Annotated[list[ActChainLink], Meta(max_length=16)]
    required_approvals: Count
    received_approvals: Count
    human_approval: bool
    policy_id: Text200 | None


class NewFingerprint(Shape, frozen=True):
    """An error that is new since the change."""

    fingerprint: Text200
    blamed_commit: Text80
    first_seen: IsoTimestamp
    events: Count


class ReleaseHealthDelta(Shape, frozen=True):
    """Release health before and after."""

    before: Ratio
    after: Ratio
    delta: RatioDelta
    sessions: Count
    significant: bool


class CreditBack(Shape, frozen=True):
    """The refund for a change that did not last."""

    issued: bool
    amount_cents: Count
    invoice_line_id: Text200 | None
    reason: Text600


class DurabilityWindow(Shape, frozen=True):
    """Whether the change lasted."""

    state: Literal["OPEN", "CLOSED", "REFUSED"]
    verdict: Literal["DURABLE", "REGRESSED", "PENDING", "INCONCLUSIVE"]
    window_days: PositiveInteger
    opened_at: IsoTimestamp
    closes_at: IsoTimestamp
    closed_at: IsoTimestamp | None
    original_fingerprint_recurrences: Count
    new_fingerprints: Annotated[list[NewFingerprint], Meta(max_length=50)]
    reverted: bool
    revert_commit: Text80 | None
    release_health_delta: ReleaseHealthDelta | None
    credit_back: CreditBack | None


class SliceProbe(Shape, frozen=True):
    """A probe in a running process, and its approval."""

    probe_id: Text200
    approved_by_principal_id: Text200 | None
    approved_at: IsoTimestamp | None
    expires_at: IsoTimestamp
    max_captures: PositiveInteger
    captures_taken: Count
    names_approved: Annotated[list[Text120], Meta(max_length=16)]


class StateSlice(Shape, frozen=True):
    """The values that led to an error."""

    origin: Literal["throw", "probe"]
    file: Text1024
    line: Count
    fault_expression: Text400
    values_captured: Count
    values_withheld: Count
    withheld_by_policy: Count
    analysis_complete: bool
    incompleteness_reasons: Annotated[list[Text300], Meta(max_length=16)]
    redaction_shapes: Annotated[list[Text120], Meta(max_length=50)]
    slice_digest: Sha256Digest
    scrub_tiers: Annotated[list[Text40], Meta(max_length=4)]
    probe: SliceProbe | None


class NotReplayed(Shape, frozen=True):
    """The number of samples that were not replayed, and the reason."""

    reason: Text120
    count: Count


class SelectionCriterion(Shape, frozen=True):
    """A criterion by which samples were selected."""

    basis: Text80
    samples: Count
    description: Text600


class Selection(Shape, frozen=True):
    """The recorded samples that were selected and replayed."""

    candidate_pool: Count
    selected: Count
    replayed: Count
    not_replayed: Annotated[list[NotReplayed], Meta(max_length=20)]
    criteria: Annotated[list[SelectionCriterion], Meta(max_length=20)]
    recorded_from: IsoTimestamp | None
    recorded_until: IsoTimestamp | None


class Coverage(Shape, frozen=True):
    """How much of the patch the samples execute."""

    patched_files: Integer
    patched_lines_executable: Integer
    patched_lines_exercised: Integer
    ratio: Ratio | None
    files_not_exercised: Annotated[list[Text1024], Meta(max_length=200)]
    added_lines_unreachable_by_recording: Integer
    instrument: Text80
    file_granularity_only: bool


class ClassificationBasis(Shape, frozen=True):
    """The reason why a difference is classified as intended or not."""

    rule: Text120
    detail: Detail600
    source: Text80


class DiffFinding(Shape, frozen=True):
    """One difference between two responses."""

    sample_id: Text200
    selection_basis: Text80
    pointer: Text512
    change: Text80
    classification: Literal["INTENDED", "UNINTENDED", "UNCLASSIFIED"]
    basis: ClassificationBasis
    normalizations: Annotated[list[Text80], Meta(max_length=10)]


class BehavioralDiff(Shape, frozen=True):
    """The differences between responses with and without the patch."""

    base_commit: Text80 | None
    patch_digest: Sha256Digest
    selection: Selection
    coverage: Coverage
    normalizers: Annotated[list[Text80], Meta(max_length=32)]
    samples_with_diffs: Count
    diffs_found: Count
    intended: Count
    unintended: Count
    unclassified: Count
    findings: Annotated[list[DiffFinding], Meta(max_length=200)]
    findings_truncated: bool
    sandbox_provider: Text120
    dependencies_mocked_from_recording: bool


class DivergencePoint(Shape, frozen=True):
    """The place at which two traces diverge."""

    index: Count
    frame_key: Text1024
    fault_class: Literal[
        "WRONG_BRANCH",
        "WRONG_VALUE",
        "MISSING_CALL",
        "EXTRA_CALL",
        "ERROR_RAISED",
        "FRAME_MISMATCH",
        "EXECUTION_TRUNCATED",
    ]
    file: Text1024 | None
    line: Integer | None
    field: Text200 | None


class NormalizationRule(Shape, frozen=True):
    """A rule that made traces comparable, and how often it was applied."""

    rule_id: Text120
    occurrences: Integer


class PostPatch(Shape, frozen=True):
    """The effect of the patch on the divergence."""

    outcome: Literal["RESOLVED", "MOVED_AS_INTENDED", "UNCHANGED", "NEW_DIVERGENCE", "INCONCLUSIVE", "NOT_ASSERTED"]
    intended_frame_keys: Annotated[list[Text1024], Meta(max_length=50)]
    unintended_divergences: Annotated[list[DivergencePoint], Meta(max_length=50)]
    addressed_prior: bool


class DivergenceLocalization(Shape, frozen=True):
    """The first place at which a failing run differs from a successful run."""

    status: Literal["LOCALIZED", "NO_DIVERGENCE", "INCONCLUSIVE_NONDETERMINISM", "UNAVAILABLE"]
    reference_label: Text120
    candidate_label: Text120
    reference_commit: Text80 | None
    candidate_commit: Text80 | None
    patched_commit: Text80 | None
    reference_trace_digest: Sha256Digest
    candidate_trace_digest: Sha256Digest
    patched_trace_digest: Sha256Digest | None
    control_trace_digest: Sha256Digest | None
    reference_frames: Count
    candidate_frames: Count
    matched_frames: Count
    divergence_count: Count
    first_divergence: DivergencePoint | None
    normalization_rules: Annotated[list[NormalizationRule], Meta(max_length=64)]
    disabled_normalization_rules: Annotated[list[Text120], Meta(max_length=64)]
    unnormalized_nondeterminism: Annotated[list[Text600], Meta(max_length=32)]
    control_run_performed: bool
    noise_frontier_index: Integer | None
    post_patch: PostPatch


class Submitter(Shape, frozen=True):
    """The submitter of the patch."""

    principal_id: Text200 | None
    kind: ActorKind
    authenticated_by: Text120


class DeclaredAuthor(Shape, frozen=True):
    """The declared author of the patch."""

    vendor: Text120 | None
    agent_name: Text120 | None
    agent_version: Text60 | None
    model_id: Text200 | None


class VerifierIndependence(Shape, frozen=True):
    """The other roles of the bundle's issuer, besides verification."""

    patch_authored_by_issuer: bool
    repro_authored_by_issuer: bool
    sandbox_operated_by_issuer: bool


class PatchOrigin(Shape, frozen=True):
    """The origin of the patch."""

    origin_kind: Literal["FIRST_PARTY", "EXTERNAL_AGENT", "HUMAN_CONTRACTOR", "UNATTRIBUTED"]
    externally_authored: bool
    submitter: Submitter
    declared_author: DeclaredAuthor
    attestation_source: Literal["FIRST_PARTY_LOOP", "SIGNED_HANDOFF_BUNDLE", "SUBMITTER_DECLARED"]
    submission_channel: Literal["REST", "MCP", "INTERNAL_LOOP"]
    submission_id: Text200 | None
    patch_digest: Sha256Digest
    diff_bytes: Count
    files_changed: Annotated[list[Text1024], Meta(max_length=200)]
    received_at: IsoTimestamp
    verifier_independence: VerifierIndependence


class MitigationInverse(Shape, frozen=True):
    """The action that reverses a mitigation."""

    action_type: Text80
    description: Detail600
    applied: bool


class BlastRadius(Shape, frozen=True):
    """The parts that a mitigation affects."""

    scope: Text40
    environments: Annotated[list[Text120], Meta(max_length=20)]
    targets: Annotated[list[Text200], Meta(max_length=50)]
    traffic_fraction: Ratio | None
    affected_sessions: Integer | None
    basis: Text300
    notes: Annotated[list[Text300], Meta(max_length=10)]


class MitigationApproval(Shape, frozen=True):
    """The approval of a mitigation."""

    request_id: Text200 | None
    approved_by_principal_id: Text200 | None
    approved_at: IsoTimestamp | None
    required_approvals: Integer
    received_approvals: Integer
    human_approval: bool
    risk_class: Text40


class MitigationVerification(Shape, frozen=True):
    """The evidence whether a mitigation helped."""

    signal: Text400
    kind: Text80
    outcome: Literal["OBSERVED", "NOT_OBSERVED", "PENDING", "NOT_MEASURED"]
    detail: Text600
    observed_from: IsoTimestamp | None
    observed_until: IsoTimestamp | None
    before: float | None
    after: float | None


class ReversalDebt(Shape, frozen=True):
    """The person who must reverse a mitigation, and the deadline."""

    debt_id: Text200
    owner_principal_id: Text200
    due_at: IsoTimestamp
    status: Text40
    cleared_at: IsoTimestamp | None


class MitigationApplied(Shape, frozen=True):
    """A temporary measure until the change is released."""

    mitigation_id: Text200
    action_type: Text80
    provider: Text120
    state: Literal["ACTIVE", "REVERTED", "EXPIRED", "FAILED"]
    applied_at: IsoTimestamp
    expires_at: IsoTimestamp
    ttl_minutes: PositiveInteger
    withdrawn_at: IsoTimestamp | None
    auto_reverted: bool
    withdrawal_reason: Text600 | None
    inverse: MitigationInverse | None
    blast_radius: BlastRadius
    approval: MitigationApproval
    verification: MitigationVerification | None
    issue_status_changed_by_mitigation: bool
    reversal_debt: ReversalDebt | None
    artifact_checksum: Sha256Digest
