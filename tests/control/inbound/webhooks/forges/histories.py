"""Histories of a default branch: fixes, reverts of anything, and what is in the code at the end.

The end is computed as git would: each change is in the code or not, a revert takes it out, and puts back in what it had
itself taken out. `Forge` turns a history into what the platform sends.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from control.inbound.integrations.tables import IntegrationKind
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.payloads import rfc

Sent = tuple[str, Any]
QUOTED: Final = ("```\nFixes {0}\n```", "> Fixes {0}", "<!-- Fixes {0} -->", "`Fixes {0}`", "~~~ text\nCloses {0}\n~~~")


@dataclass
class Change:
    """A commit, or a proposal that was merged as `style`: "merge", "squash" or "rebase"."""

    title: str
    fixes: set[str] = field(default_factory=set)
    reverts: "Change | None" = None
    number: int | None = None
    style: str = "commit"
    commits: list[tuple[str, str]] = field(default_factory=list)  # hash and message, oldest first
    text: str = ""  # of the proposal
    minutes: int = 0
    is_there: bool = True

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    def may_be_taken_out(self) -> bool:
        """Whether git would revert it without a conflict: nothing else has taken out what it would put back."""
        return self.is_there and (self.reverts is None or self.reverts.may_be_put_back())

    def may_be_put_back(self) -> bool:
        return not self.is_there and (self.reverts is None or self.reverts.may_be_taken_out())

    def take_out(self) -> None:
        self.is_there = False
        if self.reverts is not None:
            self.reverts.put_back()

    def put_back(self) -> None:
        self.is_there = True
        if self.reverts is not None:
            self.reverts.take_out()


@dataclass
class Forge:
    """A platform: its events, and its words for a merge, a squash and a revert of a proposal."""

    kind: IntegrationKind
    push: Callable[[int, Sequence[tuple[str, str]]], Sent]
    proposal: Callable[[int, int, bool, str, str, str], Sent]  # minutes, number, is_merged, title, text, hash
    merge: str
    squash: str
    revert: str
    short_merges: bool = False


class Writer:
    """Writes a history of `length` changes about the issues; everything else of it is its own."""

    def __init__(self, forge: Forge, issues: Sequence[str], seed: int, length: int = 9) -> None:
        self.forge, self.issues, self.chance = forge, issues, Random(seed)
        self.changes: list[Change] = []
        self._seed, self._hashes, self._number = seed, 0, seed * 100
        for minutes in range(10, 10 + 10 * length, 10):
            self._write(minutes)

    def fixed(self) -> set[str]:
        return {issue for change in self.changes if change.is_there for issue in change.fixes}

    def deliveries(self) -> Iterator[Sent]:
        for one in self.changes:
            if one.number is not None:
                yield self.forge.proposal(one.minutes - 5, one.number, False, one.title, one.text, one.head)
                yield self.forge.proposal(one.minutes, one.number, True, one.title, one.text, one.head)
            yield self.forge.push(one.minutes, one.commits)

    def _hash(self) -> str:
        self._hashes += 1
        return hashlib.sha1(f"{self.forge.kind} {self._seed} {self._hashes}".encode()).hexdigest()  # noqa: S324

    def _write(self, minutes: int) -> None:
        there = [one for one in self.changes if one.may_be_taken_out()]
        target = self.chance.choice(there) if there and self.chance.random() < 0.6 else None
        style = self.chance.choice(("commit", "commit", "merge", "squash", "rebase"))
        issue = self.chance.choice(self.issues)
        change = Change(f"Fixes {issue}: totals {minutes}", {issue}, minutes=minutes, style=style)
        text = self.chance.choice(QUOTED).format(self.chance.choice(self.issues))
        if target is not None:
            change = Change(f'Revert "{target.title}"', set(), target, minutes=minutes, style=style)
            text = f"{text}\n\n{self._words(target)}"
            if self.chance.random() < 0.3:
                other = self.chance.choice(self.issues)
                change.fixes.add(other)
                text += f"\n\nAlso resolves {other}."
            target.take_out()
        if style != "commit":
            self._number += 1
            change.number = self._number
        change.text = text
        change.commits = self._commits(change, text)
        self.changes.append(change)

    def _words(self, target: Change) -> str:
        """How somebody reverts it: by its hash, or by its number."""
        by_number = self.forge.revert.format(target.number)
        if target.style == "rebase" or (target.number is not None and self.chance.random() < 0.5):
            return by_number
        more = f", reversing\nchanges made to {'b' * 40}" if target.style == "merge" else ""
        return f"This reverts commit {target.head}{more}."

    def _commits(self, change: Change, text: str) -> list[tuple[str, str]]:
        whole = f"{change.title}\n\n{text}"
        match change.style:
            case "commit":
                return [(self._hash(), whole)]
            case "squash":
                title = self.forge.squash.format(change.title, change.number)
                return [(self._hash(), f"{title}\n\n* Try it\n\n* {change.title}\n\n{text}")]
            case "rebase":
                return [(self._hash(), whole), (self._hash(), "Tidy up")]
            case _:
                merge = self.forge.merge.format(change.title, change.number)
                return [(self._hash(), whole), (self._hash(), "Tidy up"), (self._hash(), merge)]


def _github_push(minutes: int, commits: Sequence[tuple[str, str]]) -> Sent:
    return "push", payloads.github_push(minutes, *(payloads.github_commit(*one, minutes) for one in commits))


def _github_pull(minutes: int, number: int, is_merged: bool, title: str, text: str, sha: str) -> Sent:
    more: dict[str, Any] = {"title": title, "merged": is_merged, "merge_sha": sha if is_merged else None}
    action, state = ("closed", "closed") if is_merged else ("opened", "open")
    if is_merged:
        more["merged_at"] = rfc(minutes)
    return "pull_request", payloads.github_pull_request(minutes, action, number, text, state=state, **more)


def _gitlab_push(minutes: int, commits: Sequence[tuple[str, str]]) -> Sent:
    bodies = [payloads.gitlab_push(minutes, *one) for one in commits]
    listed = [one for body in bodies for one in body["commits"]]
    return "Push Hook", bodies[-1] | {"commits": listed, "total_commits_count": len(listed)}


def _gitlab_merge(minutes: int, number: int, is_merged: bool, title: str, text: str, sha: str) -> Sent:
    action, state = ("merge", "merged") if is_merged else ("open", "opened")
    body = payloads.gitlab_merge_request(minutes, action, number, state, text)
    body["object_attributes"] |= {"title": title, "merge_commit_sha": sha if is_merged else None}
    return "Merge Request Hook", body


def _bitbucket_push(minutes: int, commits: Sequence[tuple[str, str]]) -> Sent:
    bodies = [payloads.bitbucket_push(minutes, *one) for one in commits]
    listed = [body["push"]["changes"][0]["commits"][0] for body in reversed(bodies)]
    bodies[-1]["push"]["changes"][0]["commits"] = listed
    return "repo:push", bodies[-1]


def _bitbucket_pull(minutes: int, number: int, is_merged: bool, title: str, text: str, sha: str) -> Sent:
    event, state = ("pullrequest:fulfilled", "MERGED") if is_merged else ("pullrequest:created", "OPEN")
    body = payloads.bitbucket_pull_request(minutes, number, state, text, "main")
    body["pullrequest"] |= {"title": title, "merge_commit": {"hash": sha[:12]} if is_merged else None}
    return event, body


def _data_center_push(minutes: int, commits: Sequence[tuple[str, str]]) -> Sent:
    bodies = [payloads.data_center_push(minutes, *one) for one in commits]
    return "repo:refs_changed", bodies[-1] | {"commits": [body["commits"][0] for body in reversed(bodies)]}


def _data_center_pull(minutes: int, number: int, is_merged: bool, title: str, text: str, sha: str) -> Sent:
    event, state = ("pr:merged", "MERGED") if is_merged else ("pr:opened", "OPEN")
    body = payloads.data_center_pull_request(minutes, event, number, state, text)
    body["pullRequest"] |= {"title": title, "properties": {"mergeCommit": {"id": sha}} if is_merged else {}}
    return event, body


def _gitea_push(minutes: int, commits: Sequence[tuple[str, str]]) -> Sent:
    return "push", payloads.gitea_push(minutes, *reversed(commits))


def _gitea_pull(minutes: int, number: int, is_merged: bool, title: str, text: str, sha: str) -> Sent:
    action = "closed" if is_merged else "opened"
    body = payloads.gitea_pull_request(minutes, action, number, text, merged=is_merged)
    body["pull_request"] |= {"title": title, "merge_commit_sha": sha if is_merged else None}
    return "pull_request", body


_SQUASH: Final = "{0} (#{1})"
_GITEA: Final = (
    _gitea_push,
    _gitea_pull,
    "Merge pull request '{0}' (#{1}) from fix into main",
    _SQUASH,
    "Reverts #{0}",
)
FORGES: Final = {
    "github": Forge(
        *(IntegrationKind.GITHUB, _github_push, _github_pull),
        *("Merge pull request #{1} from ada/fix\n\n{0}", _SQUASH, "Reverts shop/web#{0}"),
    ),
    "gitlab": Forge(
        *(IntegrationKind.GITLAB, _gitlab_push, _gitlab_merge),
        *("Merge branch 'fix' into 'main'\n\n{0}\n\nSee merge request shop/web!{1}", "{0}"),
        "This reverts merge request !{0}",
    ),
    "bitbucket": Forge(
        *(IntegrationKind.BITBUCKET, _bitbucket_push, _bitbucket_pull),
        *("Merged in fix (pull request #{1})\n\n{0}", "Merged in fix (pull request #{1})\n\n{0}"),
        "This reverts pull request #{0}.\n\n> Fixes WEB-1\n>\n> Closes WEB-2",
    ),
    "data center": Forge(
        *(IntegrationKind.BITBUCKET, _data_center_push, _data_center_pull),
        *("Pull request #{1}: {0}\n\nMerge in SHOP/web from fix to master", "Pull request #{1}: {0}"),
        "This reverts pull request #{0}.",
    ),
    "gitea": Forge(IntegrationKind.GITEA, *_GITEA),
    "forgejo": Forge(IntegrationKind.FORGEJO, *_GITEA),
}
