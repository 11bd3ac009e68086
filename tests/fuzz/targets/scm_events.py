"""Bodies of webhooks of source control, signed and then hostile: bytes to what they say, which both databases store.

The first byte chooses the platform, the second the event in its header; the rest is the body.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import sqlalchemy as sa

from chassis.changes import MAX_NAME_LENGTH, change_events
from control.code.changes import MAX_AHEAD
from control.code.commits import MAX_FILES, NewCommit
from control.code.proposals.store import ProposalReport
from control.code.releases.bodies import MAX_REPORTED_MESSAGE
from control.inbound.integrations.tables import IntegrationKind
from control.inbound.webhooks.api import SOURCES
from control.inbound.webhooks.forges.events import (
    MAX_COMMITS,
    CommitsPushed,
    Content,
    Deployed,
    HookDeleted,
    ReleasePublished,
    TicketChanged,
)
from control.inbound.webhooks.platform import PayloadError
from control.issues.references import MAX_TEXT
from control.issues.releases.tables import commits, proposals, releases
from control.issues.tables import issue_links
from tests.control.inbound.webhooks.forges import payloads

Mutate = Callable[[bytes, int], bytes]

RECEIVED_AT: Final = datetime(2026, 11, 24, tzinfo=UTC)
KINDS: Final = tuple(IntegrationKind(name) for name in ("github", "gitlab", "bitbucket", "gitea", "forgejo"))
EVENTS: Final = (
    *("push", "pull_request", "release", "issues", "deployment_status", "meta", "star"),
    *("Push Hook", "Tag Push Hook", "Merge Request Hook", "Issue Hook", "Release Hook", "Deployment Hook"),
    *("System Hook", "Job Hook"),
    *("repo:push", "pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "issue:updated", "repo:fork"),
    *("repo:refs_changed", "pr:opened", "pr:merged", "pr:deleted", "pr:comment:added"),
)
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_STORABLE: Final = re.compile("[\0\ud800-\udfff]")
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, 1e308, 2**63, 2**64, -(10**30), "", " ", "\0", "\x1b", "\ud800", "\u202e"),
    *("x" * 300, "x" * 3_000, "a/b", "0" * 40, "f" * 40, "F" * 64, "main", "refs/heads/main", "refs/tags/v1"),
    *("open", "opened", "closed", "merged", "MERGED", "success", "published", "deleted", "2026-11-20T00:00:00Z"),
    *("2026-02-30T00:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-11-20 00:00:00 UTC"),
    *("https://github.com/a/b/issues/1", "http://[", "javascript:alert(1)", "Ada <ada@example.com>", [], {}, [{}]),
    *([None], ["\0"], {"name": None}, {"id": "x"}),
)


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, event = KINDS[data[0] % len(KINDS)], EVENTS[data[1] % len(EVENTS)]
    try:
        parsed = SOURCES[kind].platform.parse(event, data[2:], RECEIVED_AT)
    except PayloadError as error:
        assert len(str(error)) < 400
        assert str(error).isprintable()
        return
    assert parsed.name == event
    assert len(parsed.contents) <= 2
    for content in parsed.contents:
        _check_content(content)


def _check_content(content: Content) -> None:
    match content:
        case CommitsPushed():
            assert content.default_branch_at is None or content.default_branch_at <= RECEIVED_AT
            assert len(content.commits) <= MAX_COMMITS
            assert content.not_listed is None or content.not_listed >= 0
            assert content.commits or content.not_listed != 0
            assert len({one.key for one in content.commits}) == len(content.commits)
            for one in content.commits:
                _check_commit(one)
        case ProposalReport() as report:
            for name in ("repository", "number", "title", "head_ref", "head_sha", "merge_sha", "author_name", "url"):
                _check_text(getattr(report, name), proposals.c[name])
            assert report.title
            assert report.text is not None
            assert len(report.text) <= MAX_TEXT
            assert _STORABLE.search(report.text) is None
            _check_time(report.changed_at)
        case ReleasePublished(repository, report):
            _check_text(repository, commits.c.repository)
            _check_text(report.version, releases.c.version)
            _check_text(report.ref, releases.c.ref)
            _check_text(report.url, releases.c.url)
            assert report.version
            assert report.released_at is None or report.released_at <= RECEIVED_AT + MAX_AHEAD
        case Deployed():
            _check_text(content.repository, commits.c.repository)
            _check_text(content.environment, change_events.c.environment)
            _check_text(content.url, change_events.c.url)
            _check_text(content.sha, commits.c.sha)
            assert content.ref is None or len(content.ref) <= 255 >= MAX_NAME_LENGTH
            assert content.id.isdecimal()
            assert content.at <= RECEIVED_AT
            _check_time(content.at)
        case TicketChanged():
            assert len(content.items) <= 3
            for item in content.items:
                _check_text(item.system, issue_links.c.system)
                _check_text(item.external_id, issue_links.c.external_id)
            _check_text(content.title, issue_links.c.title)
            _check_time(content.changed_at)
        case HookDeleted(hook_id):
            assert hook_id.isdecimal()


def _check_commit(one: NewCommit) -> None:
    for name in ("repository", "sha", "author_name", "author_email", "url"):
        _check_text(getattr(one, name), commits.c[name])
    assert re.fullmatch("[0-9a-f]{7,64}", one.sha)
    assert len(one.message) <= MAX_REPORTED_MESSAGE
    assert _STORABLE.search(one.message) is None
    if one.authored_at is not None:
        _check_time(one.authored_at)
    if one.files is not None:
        assert len(one.files) <= MAX_FILES
        assert _CONTROL.search("".join(one.files)) is None
        json.dumps(one.files, ensure_ascii=False).encode()


def _check_text(text: str | None, column: sa.Column[Any]) -> None:
    if text is not None:
        text.encode()
        assert _CONTROL.search(text) is None
        assert len(text) <= getattr(column.type, "length", 0)


def _check_time(time: datetime) -> None:
    assert time.utcoffset() == timedelta(0)
    assert 1970 <= time.year <= 9999
    assert time.microsecond % 1_000 == 0


def mutate(data: bytes, max_size: int, random: Random, mutate: Mutate) -> bytes:
    """One change in the tree of the JSON; at times a blind one, also of the platform and the event."""
    head, body = data[:2], data[2:]
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return mutate(data, max_size)
    if random.random() < 0.15 or not isinstance(value, dict) or not value:
        return mutate(data, max_size)
    node: Any = value
    while True:
        place = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[place], dict | list) or not node[place] or random.random() < 0.2:
            break
        node = node[place]
    if random.random() < 0.15:
        del node[place]
    else:
        node[place] = random.choice(_VALUES)
    return (head + json.dumps(value).encode())[:max_size]


def examples() -> Iterator[bytes]:
    """Inputs to begin with: each platform's events as it writes them."""
    commit = payloads.github_commit("f1", "Fixes WEB-1")
    github, gitlab, bitbucket, gitea, forgejo = KINDS
    for kind, event, body in (
        (github, "push", payloads.github_push(1, commit)),
        (github, "pull_request", payloads.github_pull_request(1, "closed", 1, "x", merged=True, merge_sha="ab")),
        (github, "issues", payloads.github_issue(1, "closed", 1, "closed")),
        (github, "release", payloads.github_release(1, "1.0")),
        (github, "deployment_status", payloads.github_deployment(1, 1)),
        (github, "meta", {"action": "deleted", "hook_id": 1, "hook": {"id": 1}}),
        (gitlab, "Push Hook", payloads.gitlab_push(1, "f1", "x")),
        (gitlab, "Merge Request Hook", payloads.gitlab_merge_request(1, "merge", 1, "merged", "x")),
        (gitlab, "Issue Hook", payloads.gitlab_issue(1, "close", 1, "closed")),
        (gitlab, "Release Hook", payloads.gitlab_release(1, "1.0")),
        (gitlab, "Deployment Hook", payloads.gitlab_deployment(1, 1)),
        (bitbucket, "repo:push", payloads.bitbucket_push(1, "f1", "x")),
        (bitbucket, "pullrequest:fulfilled", payloads.bitbucket_pull_request(1, 1, "MERGED", "x")),
        (bitbucket, "issue:updated", payloads.bitbucket_issue(1, 1, "closed")),
        (bitbucket, "repo:refs_changed", payloads.data_center_push(1, "f1", "x")),
        (bitbucket, "pr:merged", payloads.data_center_pull_request(1, "pr:merged", 1, "MERGED", "x")),
        (gitea, "push", payloads.gitea_push(1, ("f1", "x"))),
        (gitea, "pull_request", payloads.gitea_pull_request(1, "closed", 1, "x", merged=True)),
        (gitea, "issues", payloads.gitea_issue(1, "closed", 1, "closed")),
        (forgejo, "release", payloads.gitea_release(1, "1.0")),
    ):
        yield bytes((KINDS.index(kind), EVENTS.index(event))) + json.dumps(body).encode()
