"""Builds the routes of proof bundles and of the keys of their issuers."""

from typing import Final

from chassis.http.web import Route
from control.approvals.proofs.bundles import ProofBundles
from control.approvals.proofs.intake import Intake
from control.approvals.proofs.issuers import ProofIssuers
from control.approvals.proofs.submission import ProofSubmission
from control.http.context import HandlerContext
from control.http.request_slots import RequestSlots

_REFUSAL: Final = "Too many proof bundles are handed in at once."
_READ_REFUSAL: Final = "Too many proof bundles are read at once."


def build_proof_routes(context: HandlerContext, max_bytes: int, body_min_rate: int) -> list[Route]:
    """Routes. `max_bytes`: of the bundles of an organization; 0: no limit. `body_min_rate`: of bodies that take longer
    than others, bytes per second.
    """
    intake = Intake(context.body_timeout_s, body_min_rate)
    submission = ProofSubmission(context, intake, RequestSlots(_REFUSAL), max_bytes)
    bundles = ProofBundles(context, intake, RequestSlots(_READ_REFUSAL))
    return [*bundles.routes(), *submission.routes(), *ProofIssuers(context).routes()]
