"""The response of suspects."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from control.scm.commit_repository import StoredCommit
from control.scm.release_schemas import Commit, commit_body
from control.suspects.ranking import Reason, Suspect


class Basis(StrEnum):
    """Which commits were considered: those of the first release, or those of the time before."""

    RELEASE = "release"
    TIME = "time"


class StackFrame(msgspec.Struct, frozen=True, rename="camel"):
    """A frame of the application's own code."""

    file: str
    function: str


class SuspectReason(msgspec.Struct, frozen=True, rename="camel"):
    """The commit changed the file of a frame. `rank` 0 is the innermost frame of the application."""

    frame: StackFrame
    file: str
    rank: Annotated[int, Meta(ge=0)]


class SuspectCommit(Commit, frozen=True, rename="camel"):
    """A commit that may have caused the issue."""

    score: Annotated[float, Meta(ge=0, description="Above 0; comparable within one response only.")]
    reasons: list[SuspectReason]


class IssueSuspects(msgspec.Struct, frozen=True, rename="camel"):
    """The commits that may have caused an issue, the likeliest first."""

    first_bad_release: Annotated[str | None, Meta(description="The release of the first occurrence.")]
    previous_release: Annotated[str | None, Meta(description="The latest release of the project before that one.")]
    basis: Basis
    frames: Annotated[list[StackFrame], Meta(description="The application's own frames, innermost first.")]
    commits: list[SuspectCommit]
    complete: Annotated[bool, Meta(description="False: there are more commits, files or frames than were considered.")]
    note: Annotated[str | None, Meta(description="Why there are no suspects, in words.")]


def suspect_body(suspect: Suspect, commit: StoredCommit) -> SuspectCommit:
    """The API representation."""
    reasons = [_reason_body(reason) for reason in suspect.reasons]
    return SuspectCommit(**msgspec.structs.asdict(commit_body(commit)), score=suspect.score, reasons=reasons)


def _reason_body(reason: Reason) -> SuspectReason:
    return SuspectReason(StackFrame(reason.frame.file, reason.frame.function), reason.file, reason.rank)
