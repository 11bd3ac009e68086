"""What an event of source control says."""

from dataclasses import dataclass
from datetime import datetime

from control.code.commits import NewCommit
from control.code.issue_links.addresses import ExternalItem
from control.code.proposals.store import ProposalReport
from control.code.releases.store import ReleaseReport
from control.issues.tables import LinkState


@dataclass(frozen=True, slots=True)
class CommitsPushed:
    """Commits, oldest first. `default_branch_at`: when they reached the default branch; None: they are on another.
    `not_listed`: how many more the push has, which the platform did not list; None: some, and it does not say how many.
    """

    commits: tuple[NewCommit, ...]
    default_branch_at: datetime | None
    not_listed: int | None = 0


@dataclass(frozen=True, slots=True)
class ProposalChanged:
    """A pull or merge request as it is now."""

    report: ProposalReport


@dataclass(frozen=True, slots=True)
class ReleasePublished:
    """A release of a repository."""

    repository: str
    report: ReleaseReport


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment that succeeded. `id`: by the platform, in the repository."""

    repository: str
    id: str
    at: datetime
    environment: str | None
    ref: str | None
    sha: str | None
    url: str | None


@dataclass(frozen=True, slots=True)
class TicketChanged:
    """A ticket as it is now, at `changed_at`. `items`: how links may name it. `is_reopened`: by this event. `is_fixed`
    False: it was closed without a fix.
    """

    items: tuple[ExternalItem, ...]
    title: str | None
    state: LinkState
    changed_at: datetime
    is_reopened: bool = False
    is_fixed: bool = True


@dataclass(frozen=True, slots=True)
class HookDeleted:
    """The webhook with this id is gone: nothing comes from it any more."""

    hook_id: str


Content = CommitsPushed | ProposalChanged | ReleasePublished | Deployed | TicketChanged | HookDeleted


@dataclass(frozen=True, slots=True)
class ScmEvent:
    """An event by the platform's name; nothing for one without effect."""

    name: str
    contents: tuple[Content, ...] = ()
