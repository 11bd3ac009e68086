"""Request and response bodies of proposals."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from control.code.proposal_repository import StoredProposal
from control.code.release_schemas import Ref, Repository, Sha
from control.http.field_types import Timestamp, Url, line, lines
from control.http.time_input import TimeInput
from control.issues.references import MAX_REFERENCES, MAX_SHORT_ID_LENGTH, MAX_TEXT, SHORT_ID_PATTERN
from control.issues.releases.tables import MAX_PROPOSAL_NUMBER_LENGTH, MAX_TITLE_LENGTH, ProposalState
from control.routing.resource import shown_as
from proto.identity import MAX_NAME_LENGTH

_Number = Annotated[str, line(MAX_PROPOSAL_NUMBER_LENGTH)]
_Title = Annotated[str, line(MAX_TITLE_LENGTH)]
ShortIdText = Annotated[
    str,
    Meta(
        max_length=MAX_SHORT_ID_LENGTH,
        pattern=SHORT_ID_PATTERN,
        description="Must be the short id of an issue, such as `WEB-12`.",
    ),
]
PROPOSAL_ID_PATTERN: Final = "^prp_[0-9a-z]{26}$"


class ReportedState(StrEnum):
    """The state of a proposal as its platform has it."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


class NewProposalReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What is known of a proposal now. Fields that are left out stay as they were reported before; so do its issues, if
    both `body` and `issues` are left out.
    """

    repository: Repository
    number: Annotated[_Number, Meta(description="Its number or name in the repository.")]
    title: _Title
    state: ReportedState
    body: Annotated[str, lines(MAX_TEXT)] | None = None
    head_ref: Ref | None = None
    head_sha: Sha | None = None
    merge_sha: Annotated[
        Sha | None,
        Meta(description="Must be a complete hash, in hexadecimal digits: that of the commit that merged it."),
    ] = None
    author_name: Annotated[str, line(MAX_NAME_LENGTH)] | None = None
    url: Url | None = None
    changed_at: Annotated[
        TimeInput | None,
        Meta(
            description="Must be an RFC 3339 time, 1970 or later, not in the future: when the platform last changed "
            "it; by default now. An older report changes nothing."
        ),
    ] = None
    issues: (
        Annotated[
            list[ShortIdText],
            Meta(
                max_length=MAX_REFERENCES, description="Issues that it fixes, besides those that title and body name."
            ),
        ]
        | None
    ) = None


class ChangeProposal(msgspec.Struct, frozen=True, rename="camel"):
    """A pull or merge request."""

    id: Annotated[str, Meta(pattern=PROPOSAL_ID_PATTERN)]
    repository: str
    number: str
    title: str
    state: Annotated[ProposalState, Meta(description="`superseded`: another one of the same issue was merged.")]
    head_ref: str | None
    head_sha: str | None
    merge_sha: str | None
    author_name: str | None
    url: str | None
    issues: Annotated[list[str], Meta(description="Short ids of the issues that it fixes.")]
    changed_at: Timestamp
    created_at: Timestamp


class ProposalReportResult(ChangeProposal, frozen=True, rename="camel"):
    """A proposal, and what the report did."""

    issues_resolved: Annotated[list[str], Meta(description="Short ids of issues that the merge resolved.")]
    issues_reopened: Annotated[list[str], Meta(description="Short ids of issues whose fix the merge reverted.")]
    proposals_superseded: Annotated[list[str], Meta(description="`repository#number` of the others of these issues.")]


def proposal_body(proposal: StoredProposal) -> ChangeProposal:
    """The API representation."""
    return shown_as(ChangeProposal, proposal, issues=[str(one) for one in proposal.issues])
