"""Builds the routes of proof bundles and of the keys of their issuers."""

from typing import Final

from chassis.http.web import Route
from control.http.context import HandlerContext
from control.http.request_slots import RequestSlots
from control.proofs.bundles import ProofBundles
from control.proofs.intake import Intake
from control.proofs.issuers import ProofIssuers
from control.proofs.submission import ProofSubmission

_REFUSAL: Final = "Too many proof bundles of the organization are handed in at once."


def build_proof_routes(context: HandlerContext, max_bytes: int) -> list[Route]:
    """Routes. `max_bytes`: of the bundles of an organization; 0: no limit."""
    submission = ProofSubmission(context, Intake(context.body_timeout_s), RequestSlots(_REFUSAL), max_bytes)
    return [*ProofBundles(context).routes(), *submission.routes(), *ProofIssuers(context).routes()]
