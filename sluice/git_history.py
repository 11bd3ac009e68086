"""Reads commits from a git checkout, with the `git` command.

No part of a commit is interpreted by a shell or by git: fields are separated by NUL, which no message and no path
contains. Programs that the repository's own configuration could start are off: pagers, monitors, diff tools, and the
transport that fetches missing objects of a partial clone (`core.sshCommand`). Settings that change the output are set
here.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from chassis.errors import StartupError
from proto.identity import UNPRINTABLE

TIMEOUT_S: Final = 120.0
_FORMAT: Final = "%x00%H%x00%an%x00%ae%x00%aI%x00%B%x00"
_FIELDS: Final = 5
_SAFE: Final = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showRoot=true",
    "-c",
    "log.mailmap=false",
    "-c",
    "mailmap.file=",
    "-c",
    "diff.relative=false",
    "-c",
    "log.date=iso",
)
_LOG: Final = (
    "-z",
    "--name-only",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-mailmap",
    "--ignore-submodules=none",
    "-O/dev/null",
    "--encoding=UTF-8",
)
_ENVIRONMENT: Final = MappingProxyType(
    {
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
)
_LACKS_OBJECTS: Final = re.compile(r"promisor|transport '|unable to read|missing (?:blob|tree|commit)|lazy fetching")
# An address with a scheme, or in ssh's form [user@]host:path
_REMOTE: Final = re.compile(
    r"(?!file:)(?:[a-z][a-z0-9+.-]*://[^/?#]+/|(?:[^@/:]+@)?[^@/:]+:(?!//)/?)(?P<path>[^?#]+?)(?:\.git)?/?",
    re.IGNORECASE,
)
# `@` and `:` would belong to credentials, or to another address within the address
_NAME: Final = re.compile(rf"[^\s@:\\{UNPRINTABLE}]{{1,200}}")


class GitCommit(NamedTuple):
    """A commit of git. `files`: the paths that it changed (both paths of a renamed file); empty for a merge."""

    sha: str
    author_name: str
    author_email: str
    authored_at: str
    message: str
    files: tuple[str, ...]


def read_commits(directory: Path, since: str | None, until: str, limit: int) -> list[GitCommit]:
    """The newest commits that are reachable from `until` but not from `since`, at most `limit`. Raises StartupError,
    also if `until` is an ancestor of `since`.
    """
    last = resolve(directory, until)
    names = [last] if since is None else [last, f"^{resolve(directory, since)}"]
    found = parse_log(_git(directory, "log", *_LOG, f"--max-count={limit}", f"--format={_FORMAT}", *names, "--"))
    if not found and since is not None and last != resolve(directory, since):
        raise StartupError(f"{until} is older than {since}, so no commits are between them.", exit_code=2)
    return found


def parse_log(output: bytes) -> list[GitCommit]:
    """The commits in the output of `git log`: five fields each, then a line feed and the paths, if there are any."""
    tokens = output.decode("utf-8", "replace").split("\0")
    commits: list[GitCommit] = []
    position = 1
    while position + _FIELDS <= len(tokens):
        sha, name, email, at, message = tokens[position : position + _FIELDS]
        position += _FIELDS + 1  # and the empty field that ends the format
        files: list[str] = []
        while position < len(tokens) and tokens[position]:
            files.append(tokens[position].removeprefix("\n") if not files else tokens[position])
            position += 1
        commits.append(GitCommit(sha, name, email, at, message, tuple(files)))
        position += 1
    return commits


def resolve(directory: Path, name: str) -> str:
    """The hash of the commit that this name means. Raises StartupError for an unknown name."""
    try:
        found = _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except _GitFailed as error:
        _git(directory, "rev-parse", "--git-dir")  # fails if this is not a checkout
        if not _git(directory, "rev-list", "--all", "--max-count=1").strip():
            raise StartupError(f"{directory} has no commits yet.") from error
        raise StartupError(f"{name} is not a commit in {directory}; a shallow clone may lack it.") from error
    return found.decode("ascii", "replace").strip()


def previous_tag(directory: Path, until: str) -> str | None:
    """The latest tag before this commit; None if there is none."""
    try:
        found = _git(directory, "describe", "--tags", "--abbrev=0", f"{resolve(directory, until)}^")
    except _GitFailed:
        return None
    return found.decode("utf-8", "replace").strip() or None


def repository_name(directory: Path) -> str | None:
    """The name of the repository, from the address of its remote `origin`, such as `shop/checkout`; None without one.
    Raises StartupError for an address that may contain other parts, such as credentials.
    """
    try:
        found = _git(directory, "config", "--get", "remote.origin.url")
    except _GitFailed:
        return None
    name = _name_of_remote(found.decode("utf-8", "replace").strip())
    if name is None:
        message = "The name of the repository cannot be taken from the remote `origin`; use --repository."
        raise StartupError(message, exit_code=2)
    return name


def _name_of_remote(address: str) -> str | None:
    match = _REMOTE.fullmatch(address)
    name = "" if match is None else match["path"].strip("/")
    return None if _NAME.fullmatch(name) is None else name


class _GitFailed(StartupError):
    """Git exited with an error."""


def _git(directory: Path, *arguments: str) -> bytes:
    """Run git and return its output. Raises StartupError."""
    command: Sequence[str] = ("git", *_SAFE, "-C", os.fspath(directory), *arguments)
    environment = os.environ | dict(_ENVIRONMENT)
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise StartupError("The command `git` was not found.") from error
    except subprocess.TimeoutExpired as error:
        raise StartupError(f"git did not finish within {TIMEOUT_S:g} s.") from error
    if done.returncode:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[:500]
        if _LACKS_OBJECTS.search(reason):
            raise _GitFailed(
                f"{directory} lacks a part of its history (it may be a partial clone). Run `git fetch` first, because "
                f"this command does not fetch ({reason})."
            )
        raise _GitFailed(f"git failed in {directory}: {reason or f'exit code {done.returncode}'}.")
    return done.stdout
