"""Reads commits from a git checkout, with the `git` command.

Nothing of a commit is interpreted by a shell or by git: fields are separated by NUL, which no message and no path
contains, and the options of the repository's own configuration that run programs are off.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from chassis.errors import StartupError

TIMEOUT_S: Final = 120.0
_FORMAT: Final = "%x00%H%x00%an%x00%ae%x00%aI%x00%B%x00"
_FIELDS: Final = 5
# Without what a configuration may start: pagers, hooks of external differences, monitors of the file system.
_SAFE: Final = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "core.quotePath=false",
)
_REMOTE: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://(?:[^@/\s]*@)?[^/\s]+/|(?:[^@/\s:]+@)?[^/\s:]+:/?)(?P<path>[^\s?#]+?)(?:\.git)?/?"
)


class GitCommit(NamedTuple):
    """A commit as git has it. `files`: paths that it changed, of a renamed file both; empty for a merge."""

    sha: str
    author_name: str
    author_email: str
    authored_at: str
    message: str
    files: tuple[str, ...]


def read_commits(directory: Path, since: str | None, until: str, limit: int) -> list[GitCommit]:
    """The newest commits that `until` has and `since` has not, at most `limit`. Raises StartupError."""
    last = resolve(directory, until)
    names = [last] if since is None else [last, f"^{resolve(directory, since)}"]
    options = ["-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--encoding=UTF-8"]
    output = _git(directory, "log", *options, f"--max-count={limit}", f"--format={_FORMAT}", *names, "--")
    return parse_log(output)


def parse_log(output: bytes) -> list[GitCommit]:
    """The commits in what `git log` has printed: five fields each, then a line feed and the paths, if there are any."""
    tokens = output.decode("utf-8", "replace").split("\0")
    commits: list[GitCommit] = []
    position = 1
    while position + _FIELDS <= len(tokens):
        sha, name, email, at, message = tokens[position : position + _FIELDS]
        position += _FIELDS + 1  # and the empty one that ends the format
        files: list[str] = []
        while position < len(tokens) and tokens[position]:
            files.append(tokens[position].removeprefix("\n") if not files else tokens[position])
            position += 1
        commits.append(GitCommit(sha, name, email, at, message, tuple(files)))
        position += 1
    return commits


def resolve(directory: Path, name: str) -> str:
    """The hash of the commit that this name means. Raises StartupError for an unknown one."""
    try:
        found = _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except _GitFailed as error:
        _git(directory, "rev-parse", "--git-dir")  # says whether this is a checkout at all
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
    """The name of the repository by the address of its remote `origin`, such as `shop/checkout`; None without one."""
    try:
        found = _git(directory, "config", "--get", "remote.origin.url")
    except _GitFailed:
        return None
    return _name_of_remote(found.decode("utf-8", "replace").strip())


def _name_of_remote(address: str) -> str | None:
    match = None if address.startswith("file:") else _REMOTE.fullmatch(address)
    return None if match is None else match["path"].strip("/")


class _GitFailed(StartupError):
    """Git exited with an error."""


def _git(directory: Path, *arguments: str) -> bytes:
    """What git prints. Raises StartupError."""
    command: Sequence[str] = ("git", *_SAFE, "-C", os.fspath(directory), *arguments)
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
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
        raise _GitFailed(f"git failed in {directory}: {reason or f'exit code {done.returncode}'}.")
    return done.stdout
