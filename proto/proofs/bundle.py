"""The bundle with its claims, the ai-authored-change predicate and the resource descriptor (specification 2.8)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from proto.proofs import evidence
from proto.proofs.primitives import (
    AuthorKind,
    ClaimStatement,
    ClaimStatus,
    Count,
    Identifier,
    IsoTimestamp,
    ProofTier,
    ProofVerdict,
    Sha256Digest,
    Shape,
    Text80,
    Text120,
    Text200,
    Text300,
    Text400,
    Text500,
    Text600,
    Text1024,
    Text2000,
)

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:sluice:ai-authored-change:0.1.0"


class RecheckHandle(Shape, frozen=True):
    """The way in which a reader can check a claim again."""

    mechanism: Literal["SHELL", "GIT", "ARTIFACT", "API", "NONE"]
    instruction: Text2000
    expectation: Text2000
    inputs: dict[str, str]
    reproducibility: Literal["DETERMINISTIC", "STATISTICAL", "NOT_REPRODUCIBLE"]
    notes: Text2000 | None


class ClaimEnvelope(Shape, tag_field="kind", frozen=True):
    """The fields that every claim has in addition to its evidence."""

    claim_id: Identifier
    statement: ClaimStatement
    status: ClaimStatus
    recorded_at: IsoTimestamp
    disclosures: Annotated[list[Text600], Meta(max_length=20)]
    recheck: RecheckHandle | None


class ReproFailsOnHeadClaim(ClaimEnvelope, tag="repro_fails_on_head", frozen=True):
    """A claim: the test that reproduces the issue fails without the patch."""

    evidence: evidence.ReproFailsOnHead


class ReproPassesPostPatchClaim(ClaimEnvelope, tag="repro_passes_post_patch", frozen=True):
    """A claim: this test passes with the patch."""

    evidence: evidence.ReproPassesPostPatch


class SuiteGreenClaim(ClaimEnvelope, tag="suite_green", frozen=True):
    """A claim: the test suite passes."""

    evidence: evidence.SuiteGreen


class MutationPinScoreClaim(ClaimEnvelope, tag="mutation_pin_score", frozen=True):
    """A claim: the tests notice changes of the patched lines."""

    evidence: evidence.MutationPinScore


class FlakeFreedomClaim(ClaimEnvelope, tag="flake_freedom", frozen=True):
    """A claim: the deciding test is not flaky."""

    evidence: evidence.FlakeFreedom


class BlastRadiusContainmentClaim(ClaimEnvelope, tag="blast_radius_containment", frozen=True):
    """A claim: the patch changes only permitted files."""

    evidence: evidence.BlastRadiusContainment


class ResourceEnvelopeClaim(ClaimEnvelope, tag="resource_envelope", frozen=True):
    """A claim: the resource limits of the run, and the resources that it used."""

    evidence: evidence.ResourceEnvelope


class ModelAttributionClaim(ClaimEnvelope, tag="model_attribution", frozen=True):
    """A claim: a person or a model wrote the patch."""

    evidence: evidence.ModelAttribution


class ApproverIdentityClaim(ClaimEnvelope, tag="approver_identity", frozen=True):
    """A claim: a person or a policy approved the patch."""

    evidence: evidence.ApproverIdentity


class DurabilityWindowClaim(ClaimEnvelope, tag="durability_window", frozen=True):
    """A claim: the issue did not return after the patch."""

    evidence: evidence.DurabilityWindow


class StateSliceClaim(ClaimEnvelope, tag="state_slice", frozen=True):
    """A claim: a state of the program was captured."""

    evidence: evidence.StateSlice


class BehavioralDiffClaim(ClaimEnvelope, tag="behavioral_diff", frozen=True):
    """A claim: recorded requests behave the same with the patch."""

    evidence: evidence.BehavioralDiff


class DivergenceLocalizationClaim(ClaimEnvelope, tag="divergence_localization", frozen=True):
    """A claim: the place at which two runs diverge."""

    evidence: evidence.DivergenceLocalization


class PatchOriginClaim(ClaimEnvelope, tag="patch_origin", frozen=True):
    """A claim: the origin of the patch."""

    evidence: evidence.PatchOrigin


class MitigationAppliedClaim(ClaimEnvelope, tag="mitigation_applied", frozen=True):
    """A claim: a mitigation was applied meanwhile."""

    evidence: evidence.MitigationApplied


Claim = (
    ReproFailsOnHeadClaim
    | ReproPassesPostPatchClaim
    | SuiteGreenClaim
    | MutationPinScoreClaim
    | FlakeFreedomClaim
    | BlastRadiusContainmentClaim
    | ResourceEnvelopeClaim
    | ModelAttributionClaim
    | ApproverIdentityClaim
    | DurabilityWindowClaim
    | StateSliceClaim
    | BehavioralDiffClaim
    | DivergenceLocalizationClaim
    | PatchOriginClaim
    | MitigationAppliedClaim
)


class Issuer(Shape, frozen=True):
    """The issuer, which created the bundle."""

    id: Text300
    name: Text200
    software_version: Text80
    key_id: Text200 | None


class Patch(Shape, frozen=True):
    """The change itself."""

    diff_digest: Sha256Digest
    files_changed: Annotated[list[Text1024], Meta(max_length=500)]
    added_lines: Count
    removed_lines: Count


class Subject(Shape, frozen=True):
    """The subject of the bundle."""

    org_slug: Text120
    project_slug: Text120
    issue_id: Text200
    issue_short_id: Text120
    fingerprint: Text200
    title: Text400
    run_id: Text200
    proposal_id: Text200
    patch: Patch
    repository: Text500 | None
    commit: Text80 | None
    commit_checked_out: bool


class ProofBundle(Shape, frozen=True):
    """A proof bundle (the ledger of specification 2.8)."""

    format_version: Literal["0.1.0"]
    spec_uri: Text300
    bundle_id: Identifier
    issued_at: IsoTimestamp
    issuer: Issuer
    subject: Subject
    tier: ProofTier
    verdict: ProofVerdict
    billable: bool
    claims: Annotated[list[Claim], Meta(max_length=200)]


class Builder(Shape, frozen=True):
    """The system that ran the work that a predicate attests."""

    id: Text300
    version: dict[str, str]


class ChangeAuthor(Shape, frozen=True):
    """The author of the change."""

    kind: AuthorKind
    agent_id: Text200
    agent_name: Text200
    model_id: Text200 | None


class HumanApproval(Shape, frozen=True):
    """Whether a human approved the change."""

    approved: bool
    approver_id: Text200 | None
    approved_at: IsoTimestamp | None
    act_chain_length: Count


class Verification(Shape, frozen=True):
    """A copy of the result of the bundle."""

    tier: ProofTier
    verdict: ProofVerdict
    billable: bool
    spec_uri: Text300


class AiAuthoredChange(Shape, frozen=True):
    """The ai-authored-change predicate."""

    format_version: Literal["0.1.0"]
    builder: Builder
    attested_at: IsoTimestamp
    author: ChangeAuthor
    human_approval: HumanApproval
    verification: Verification
    ledger: ProofBundle


HexDigest = Annotated[
    str,
    Meta(pattern=r"^[0-9a-f]{7,128}(?!\n)$", description="Must be 7 to 128 lowercase hexadecimal digits."),
]


class ResourceDescriptor(Shape, omit_defaults=True, frozen=True):
    """An artifact. Every key is optional."""

    name: Text500 | UnsetType = UNSET
    uri: Text500 | UnsetType = UNSET
    digest: dict[str, HexDigest] | UnsetType = UNSET
    media_type: Text200 | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET


class Statement(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An in-toto Statement v1 with an ai-authored-change predicate."""

    type_: Literal["https://in-toto.io/Statement/v1"] = msgspec.field(name="_type")
    subject: Annotated[list[ResourceDescriptor], Meta(min_length=1, max_length=100)]
    predicate_type: Literal["urn:sluice:ai-authored-change:0.1.0"]
    predicate: AiAuthoredChange
