"""Bitbucket Data Center, and the parts that Cloud has in common with it.

https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html

Data Center lists commits from version 8.0 on, without their files, and does not name the default branch.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec

from control.code.commits import NewCommit
from control.code.proposals.store import ProposalReport
from control.inbound.webhooks.forges.events import (
    MAX_COMMITS,
    CommitsPushed,
    Content,
    Number,
    Time,
    clean_text,
    new_commit,
    parse_sha,
    parse_time,
    push_time,
    repository_name,
)
from control.inbound.webhooks.platform import PayloadError, clean_line, clean_url, decode
from control.issues.references import MAX_TEXT
from control.issues.releases.tables import MAX_REF_LENGTH, MAX_TITLE_LENGTH, ProposalState
from proto.identity import MAX_NAME_LENGTH

DEFAULT_BRANCHES: Final = ("main", "master")
PULL_REQUESTS: Final = frozenset(
    {
        f"pr:{one}"
        for one in ("opened", "modified", "from_ref_updated", "to_ref_updated", "merged", "declined", "deleted")
    }
)
STATES: Final[Mapping[str, ProposalState]] = MappingProxyType(
    {
        "OPEN": ProposalState.OPEN,
        "MERGED": ProposalState.MERGED,
        "DECLINED": ProposalState.CLOSED,
        "SUPERSEDED": ProposalState.CLOSED,
    }
)


class _Link(msgspec.Struct, frozen=True):
    href: str | None = None


class _Project(msgspec.Struct, frozen=True):
    key: str


class _Repository(msgspec.Struct, frozen=True):
    slug: str
    project: _Project

    @property
    def name(self) -> str:
        return repository_name(f"{self.project.key}/{self.slug}")


class _User(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    display_name: str | None = None
    email_address: str | None = None


class _Commit(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    message: str | None = None
    author: _User | None = None
    author_timestamp: Time = None


class _Ref(msgspec.Struct, frozen=True, rename="camel"):
    display_id: str
    type: str | None = None


class _Change(msgspec.Struct, frozen=True):
    ref: _Ref
    type: str | None = None


class _Push(msgspec.Struct, frozen=True):
    repository: _Repository
    changes: list[_Change]
    commits: list[_Commit] | None = None
    date: Time = None


class _End(msgspec.Struct, frozen=True, rename="camel"):
    repository: _Repository
    display_id: str | None = None
    latest_commit: str | None = None


class _MergeCommit(msgspec.Struct, frozen=True):
    id: str | None = None


class _Properties(msgspec.Struct, frozen=True, rename="camel"):
    merge_commit: _MergeCommit | None = None


class _Participant(msgspec.Struct, frozen=True):
    user: _User | None = None


class _Links(msgspec.Struct, frozen=True):
    self: list[_Link] = []


class _PullRequest(msgspec.Struct, frozen=True, rename="camel"):
    id: Number
    title: str
    state: str
    from_ref: _End
    to_ref: _End
    updated_date: Time
    created_date: Time = None
    description: str | None = None
    author: _Participant | None = None
    properties: _Properties | None = None
    links: _Links | None = None


class _PullRequestEvent(msgspec.Struct, frozen=True, rename="camel"):
    pull_request: _PullRequest


def data_center_contents(event: str, body: bytes, received_at: datetime) -> tuple[Content, ...]:
    """Parse the contents of an event of Data Center."""
    if event == "repo:refs_changed":
        return _push(decode(_Push, body, event), received_at)
    if event in PULL_REQUESTS:
        return _pull_request(decode(_PullRequestEvent, body, event), event)
    return ()


def _push(body: _Push, received_at: datetime) -> tuple[CommitsPushed, ...]:
    """The commits of a push, newest first. If the push changes several branches, the payload does not say to which
    branch each commit belongs.
    """
    given = (body.commits or [])[:MAX_COMMITS]
    changed = [change for change in body.changes if change.ref.type == "BRANCH" and change.type != "DELETE"]
    branches = [change.ref.display_id for change in changed]
    not_listed = None if body.commits is None else len(body.commits) - len(given)
    if not branches or not (given or not_listed is None):
        return ()
    found: dict[str, NewCommit] = {}
    for one in reversed(given):
        author = one.author or _User()
        commit = new_commit(
            body.repository.name,
            one.id,
            one.message,
            author_name=author.display_name or author.name,
            author_email=author.email_address,
            authored_at=one.author_timestamp,
            address=None,
        )
        found[commit.sha] = commit
    is_default = all(branch in DEFAULT_BRANCHES for branch in branches)
    at = push_time(parse_time(body.date), received_at) if is_default else None
    return (CommitsPushed(tuple(found.values()), at, not_listed),)


def _pull_request(body: _PullRequestEvent, event: str) -> tuple[ProposalReport, ...]:
    one = body.pull_request
    merge = None if one.properties is None else one.properties.merge_commit
    user = None if one.author is None else one.author.user
    return new_proposal(
        ProposalState.CLOSED if event == "pr:deleted" else STATES.get(one.state),
        one.updated_date,
        repository=one.to_ref.repository.name,
        number=one.id,
        title=one.title,
        text=one.description,
        head_ref=one.from_ref.display_id,
        head_sha=one.from_ref.latest_commit,
        merge_sha=None if merge is None else merge.id,
        author_name=None if user is None else user.display_name or user.name,
        url=one.links.self[0].href if one.links is not None and one.links.self else None,
        opened_on=one.created_date,
        targets_default_branch=True,
    )


def new_proposal(
    state: ProposalState | None,
    updated_on: Time,
    *,
    repository: str,
    number: int,
    title: str,
    text: str | None,
    head_ref: str | None,
    head_sha: str | None,
    merge_sha: str | None,
    author_name: str | None,
    url: str | None,
    opened_on: Time,
    targets_default_branch: bool,
) -> tuple[ProposalReport, ...]:
    """The report of a pull request, also for Cloud."""
    changed_at = parse_time(updated_on)
    if state is None or changed_at is None:
        raise PayloadError("The pull request has no state, or does not say when it was changed.")
    return (
        ProposalReport(
            repository=repository,
            number=str(number),
            title=clean_line(title, MAX_TITLE_LENGTH) or f"#{number}",
            state=state,
            changed_at=changed_at,
            text=clean_text(text or "", MAX_TEXT),
            head_ref=clean_line(head_ref, MAX_REF_LENGTH),
            head_sha=parse_sha(head_sha),
            merge_sha=parse_sha(merge_sha) if state is ProposalState.MERGED else None,
            author_name=clean_line(author_name, MAX_NAME_LENGTH),
            url=clean_url(url),
            opened_at=parse_time(opened_on),
            targets_default_branch=targets_default_branch,
        ),
    )
