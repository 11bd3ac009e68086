"""What a bundle speaks of: approval requests and traces, which its claims name.

A claim names them in `recheck.inputs`, as `approvalRequestId` and `traceId`; a mitigation names its approval request in
`evidence.approval.requestId`. A claim names three at most, so a bundle has at most six hundred links.
"""

import re
from collections.abc import Iterator
from typing import Final

from control.approvals.proofs.model import Link, LinkKind
from proto.proofs.bundle import Claim, MitigationAppliedClaim

APPROVAL_INPUT: Final = "approvalRequestId"
TRACE_INPUT: Final = "traceId"
MAX_LINKS_OF_A_CLAIM: Final = 3
_APPROVAL_ID: Final = re.compile("apr_[0-9a-z]{26}")
_TRACE_ID: Final = re.compile("[0-9a-fA-F]{32}")


def parse_trace_id(text: str) -> str | None:
    """The trace id in lower case; None for another text."""
    return text.lower() if _TRACE_ID.fullmatch(text) else None


def is_approval_id(text: str) -> bool:
    """Whether the text has the form of the id of an approval request."""
    return _APPROVAL_ID.fullmatch(text) is not None


def links_of(claim: Claim) -> Iterator[Link]:
    """What one claim names. What has not the form of an id is no link."""
    inputs = {} if claim.recheck is None else claim.recheck.inputs
    named = [inputs.get(APPROVAL_INPUT)]
    if isinstance(claim, MitigationAppliedClaim):
        named.append(claim.evidence.approval.request_id)
    for text in named:
        if text is not None and is_approval_id(text):
            yield Link(LinkKind.APPROVAL_REQUEST, text)
    trace_id = parse_trace_id(inputs.get(TRACE_INPUT, ""))
    if trace_id is not None:
        yield Link(LinkKind.TRACE, trace_id)
