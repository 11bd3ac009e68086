"""`sluice release`: reports a release with its commits, which it reads from a git checkout.

It reports the commits since `--since`; the default is the latest tag before HEAD. They are sent newest first, in
requests of at most 500 commits and about 200 kB. A report that is sent again changes nothing, so you can run the
command again after a failure. The token is read from a file or from the environment.
"""

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec

from chassis.errors import StartupError
from sluice.control_client import ControlClient, read_token
from sluice.git_history import GitCommit, previous_tag, read_commits, repository_name

MAX_COMMITS: Final = 5_000
PAGE_COMMITS: Final = 500
PAGE_BYTES: Final = 200_000  # by default the service accepts 256 KiB
MAX_FILES: Final = 1_000  # of a commit
MAX_FILES_BYTES: Final = 50_000  # of the paths of a commit
MAX_PATH: Final = 1_024
MAX_MESSAGE: Final = 20_000
MAX_NAME: Final = 200
MAX_EMAIL: Final = 254
# Characters that names and paths must not contain: control characters, line breaks, and characters that change the
# direction of text.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TIME: Final = re.compile(r"(?:19[7-9][0-9]|[2-9][0-9]{3})-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")


class _Answer(msgspec.Struct, rename="camel"):
    """The fields of the response to a report that are read."""

    commits_upserted: Annotated[int, msgspec.Meta(ge=0)]
    issues_resolved: list[str]
    issues_reopened: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Report the release, or print what would be reported; the exit code. Raises StartupError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        _require_text(arguments)
        return _report(arguments)
    except StartupError as error:  # the message may quote names of the repository, git, and the server
        raise StartupError(_printable(str(error)), exit_code=error.exit_code) from error


def _require_text(arguments: argparse.Namespace) -> None:
    """Raises StartupError for arguments that are not UTF-8: Python reads them as texts with surrogates."""
    for name, value in vars(arguments).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not text.isascii() and _SURROGATE.search(text):
                raise StartupError(f"The argument {name} is not valid UTF-8.", exit_code=2)


def _report(arguments: argparse.Namespace) -> int:
    directory = Path(arguments.directory)
    since = arguments.since or previous_tag(directory, arguments.until)
    found = read_commits(directory, since, arguments.until, MAX_COMMITS + 1)
    repository = arguments.repository or repository_name(directory)
    if repository is None:
        raise StartupError("The repository has no remote `origin`; pass its name in --repository.", exit_code=2)
    kept = found[:MAX_COMMITS]
    report = _head(arguments, repository, kept[0].sha if kept else None)
    pages = list(_pages([_commit(one) for one in kept]))
    if arguments.dry_run:
        for page in pages:
            print(json.dumps(report | {"commits": page}, indent=2))
        return 0
    if len(found) > MAX_COMMITS:
        print(f"There are more than {MAX_COMMITS} commits; only the newest are reported. Use --since to select fewer.")
    client = ControlClient(arguments.server, read_token(arguments.token_file))
    path = f"/orgs/{quote(arguments.org, safe='')}/releases"
    answers = [client.post(path, _encode(report | {"commits": page}), _Answer)[1] for page in pages]
    _show(arguments.version, since, len(kept), answers)
    return 0


def _head(arguments: argparse.Namespace, repository: str, newest: str | None) -> dict[str, Any]:
    """The report without commits."""
    head: dict[str, Any] = {"version": arguments.version, "projects": arguments.project, "repository": repository}
    given = {
        "ref": arguments.ref or newest,
        "url": arguments.url,
        "environment": arguments.environment,
        "releasedAt": arguments.released_at,
    }
    return head | {name: value for name, value in given.items() if value is not None}


def _commit(one: GitCommit) -> dict[str, Any]:
    """A commit in the form of the API: parts that do not fit are left out or cut."""
    paths: list[str] = []
    room = MAX_FILES_BYTES
    for path in map(_printable, one.files):
        room -= len(path.encode("utf-8", "replace"))
        if len(paths) == MAX_FILES or room < 0:
            break
        if 0 < len(path) <= MAX_PATH:
            paths.append(path)
    commit: dict[str, Any] = {"sha": one.sha, "message": _text(one.message), "files": paths}
    if len(paths) < len(one.files):
        commit["filesTruncated"] = True
    for name, value, limit in (
        ("authorName", one.author_name, MAX_NAME),
        ("authorEmail", one.author_email, MAX_EMAIL),
    ):
        if _printable(value).strip():
            commit[name] = _printable(value).strip()[:limit].strip()
    if _TIME.fullmatch(one.authored_at):
        commit["authoredAt"] = one.authored_at
    return commit


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def _text(message: str) -> str:
    return message.replace("\0", "").encode("utf-8", "replace").decode("utf-8")[:MAX_MESSAGE]


def _pages(commits: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The commits in parts that fit into a request; one empty part if there are none."""
    page: list[dict[str, Any]] = []
    size = 0
    for commit in commits:
        length = len(json.dumps(commit, ensure_ascii=False).encode())
        if page and (len(page) == PAGE_COMMITS or size + length > PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(commit)
        size += length
    yield page


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _show(version: str, since: str | None, commits: int, answers: Sequence[_Answer]) -> None:
    new = sum(answer.commits_upserted for answer in answers)
    count = "1 commit" if commits == 1 else f"{commits} commits"
    begin = "" if since is None else f" since {since}"
    print(_printable(f"Reported {version}: {count}{begin}, {new} of them new."))
    for words, named in (
        ("Issues resolved", [answer.issues_resolved for answer in answers]),
        ("Issues reopened", [answer.issues_reopened for answer in answers]),
    ):
        issues = sorted({issue for each in named for issue in each})
        if issues:
            print(_printable(f"{words}: {', '.join(issues)}"))
