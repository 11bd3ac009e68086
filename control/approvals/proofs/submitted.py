"""What is kept of a submission once it is read: what it is stored, found and cross-checked by. Some kilobytes, whatever
the bundle holds.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from control.approvals.proofs.model import IssuerKey, Link
from control.approvals.proofs.references import links_of
from proto.proofs.bundle import Issuer, MitigationAppliedClaim, ProofBundle
from proto.proofs.primitives import ProofTier, ProofVerdict
from proto.proofs.semantics import Finding

PAYLOAD_PATH: Final = "body.payload"  # of an envelope: in it, encoded, is what has the fault


class SubmittedSubject(NamedTuple):
    """The subject of a bundle without its patch."""

    org_slug: str
    project_slug: str
    issue_id: str
    issue_short_id: str
    fingerprint: str
    title: str
    run_id: str
    proposal_id: str
    commit: str | None


class SubmittedBundle(NamedTuple):
    """A bundle whose shape is right. `signer` None: it is not signed. `contradictions`: where the bundle contradicts
    itself, or the statement around it. `place`: where the bundle is in the statement; empty without one. `links`: what
    each claim names. `approvals`: by the position of a claim, the approval request by which it says that a human
    approved a mitigation.
    """

    bundle_id: str
    issued_at: str
    issuer: Issuer
    subject: SubmittedSubject
    tier: ProofTier
    verdict: ProofVerdict
    billable: bool
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
        """Each once, in the order of the claims."""
        return list(dict.fromkeys(link for of_claim in self.links for link in of_claim))


def summarize(
    bundle: ProofBundle, signer: IssuerKey | None, contradictions: Sequence[Finding], place: str
) -> SubmittedBundle:
    """What is kept of a bundle."""
    subject = bundle.subject
    return SubmittedBundle(
        bundle_id=bundle.bundle_id,
        issued_at=bundle.issued_at,
        issuer=bundle.issuer,
        subject=SubmittedSubject(*(getattr(subject, name) for name in SubmittedSubject._fields)),
        tier=bundle.tier,
        verdict=bundle.verdict,
        billable=bundle.billable,
        signer=signer,
        contradictions=contradictions,
        place=place,
        links=[list(links_of(claim)) for claim in bundle.claims],
        approvals=dict(_approvals(bundle)),
    )


def _approvals(bundle: ProofBundle) -> list[tuple[int, str]]:
    return [
        (at, claim.evidence.approval.request_id)
        for at, claim in enumerate(bundle.claims)
        if isinstance(claim, MitigationAppliedClaim)
        and claim.evidence.approval.human_approval
        and claim.evidence.approval.request_id is not None
    ]
