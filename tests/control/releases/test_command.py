"""`sluice release`: from a git checkout to the API."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chassis.errors import StartupError
from control.settings import ControlSettings
from sluice.cli import release
from sluice.git_history import _name_of_remote, parse_log, read_commits
from sluice.main import main
from tests.control.conftest import Control
from tests.control.releases.stored import issue, new_issue
from tests.control.suspects.stories import Step, change, history

Sluice = Callable[..., int]


@pytest.fixture
def control_settings() -> ControlSettings:
    return ControlSettings()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with three commits, the first of which is tagged."""
    directory = tmp_path / "checkout"
    odd = "Names \x1b[31m\n\nFixes WEB-1"
    history(directory, (change("First", "a.py"), change("Second", "b.py"), Step(odd, {"ü \t.py": "x", "b.py": None})))
    git(directory, "tag", "v1", "main~2")
    git(directory, "symbolic-ref", "HEAD", "refs/heads/main")
    git(directory, "config", "remote.origin.url", "git@git.example.org:shop/web.git")
    return directory


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", directory, *arguments], check=True, capture_output=True)


@pytest.fixture
def token(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_TOKEN", control.acme.token.secret)


async def run(control: Control, checkout: Path, *options: str) -> int:
    server = str(control.client.make_url("/"))
    command = [
        "release",
        "1.0.0",
        "--project",
        "web",
        "--org",
        "acme",
        "--server",
        server,
        "--directory",
        str(checkout),
    ]
    return await asyncio.to_thread(main, [*command, *options])


@pytest.mark.usefixtures("token")
async def test_the_commits_since_the_last_tag_are_reported(
    control: Control, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = await new_issue(control, 1)
    assert await run(control, checkout, "--environment", "production") == 0
    assert capsys.readouterr().out == "Reported 1.0.0: 2 commits since v1, 2 of them new.\nIssues resolved: WEB-1\n"
    assert (await issue(control, one)).resolved_in_release == "1.0.0"
    _, page, _ = await control.call("GET", "/orgs/acme/releases")
    ((made,)) = page["data"]
    _, commits, _ = await control.call("GET", f"/orgs/acme/releases/{made['id']}/commits")
    newest, second = commits["data"]
    assert (newest["repository"], newest["sha"], newest["authorName"]) == ("shop/web", made["ref"], "Ada")
    assert (newest["message"], newest["files"]) == ("Names \x1b[31m\n\nFixes WEB-1", ["b.py", "ü \ufffd.py"])
    assert (second["message"], second["files"]) == ("Second", ["b.py"])
    assert await run(control, checkout) == 0
    assert capsys.readouterr().out == "Reported 1.0.0: 2 commits since v1, 0 of them new.\n"


@pytest.mark.usefixtures("token")
async def test_many_commits_go_in_several_reports(
    control: Control, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "PAGE_COMMITS", 2)
    git(checkout, "tag", "-d", "v1")
    assert await run(control, checkout) == 0
    assert capsys.readouterr().out == "Reported 1.0.0: 3 commits, 3 of them new.\n"
    monkeypatch.setattr(release, "MAX_COMMITS", 1)
    assert await run(control, checkout, "--repository", "shop/fork") == 0
    cut, reported = capsys.readouterr().out.splitlines()
    assert cut == "More than 1 commits; the newest are reported. --since narrows them."
    assert reported == "Reported 1.0.0: 1 commits, 1 of them new."


async def test_a_dry_run_prints_what_would_be_sent(
    control: Control, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And needs no token."""
    assert await run(control, checkout, "--dry-run", "--since", "HEAD~1", "--url", "https://ci.example.org/1") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["projects"], shown["url"]) == ("1.0.0", ["web"], "https://ci.example.org/1")
    assert [one["message"] for one in shown["commits"]] == ["Names \x1b[31m\n\nFixes WEB-1"]
    assert (await control.call("GET", "/orgs/acme/releases"))[1]["data"] == []


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--directory", "/"], 1, "git failed in /: fatal: not a git repository"),
        (["--since", "nothing"], 1, "nothing is not a commit"),
        (["--since", "--all"], 1, "--all is not a commit"),
        (["--project", "none"], 1, "returned 400: The request body is not valid. body.projects[1]: Is not a project"),
        (["--org", "globex"], 1, "returned 404: Not found."),
        (["--token-file", "/nowhere"], 1, "/nowhere cannot be read"),
        (["--token-file", "/dev/null"], 2, "No access token: set RELEASE_TOKEN"),
        (["--server", "ftp://example.org"], 2, "is not an http(s) URL"),
        (["--server", "http://127.0.0.1:1"], 1, "No response from http://127.0.0.1:1/orgs/acme/releases"),
    ],
)
async def test_what_fails_is_said_in_a_sentence(
    control: Control, checkout: Path, options: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"{options[0]}={options[1]}"]
    assert await run(control, checkout, *given) == code
    assert sentence in capsys.readouterr().err


async def test_a_wrong_token_is_401(
    control: Control, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text("pat_wrong\n")
    assert await run(control, checkout, "--token-file", str(file)) == 1
    assert "returned 401: the access token is not valid" in capsys.readouterr().err
    file.write_text("pat wrong")
    assert await run(control, checkout, "--token-file", str(file)) == 2


def test_without_git_it_says_so(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StartupError, match="`git` was not found"):
        read_commits(checkout, None, "HEAD", 1)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("git@github.com:shop/web.git", "shop/web"),
        ("https://user:secret@git.example.org:8443/group/shop/web.git/", "group/shop/web"),
        ("ssh://git@git.example.org:22/shop/web", "shop/web"),
        ("/srv/git/web.git", None),
        ("file:///srv/git/web.git", None),
        ("", None),
    ],
)
def test_the_repository_is_named_by_its_remote(address: str, name: str | None) -> None:
    assert _name_of_remote(address) == name


def test_any_output_of_git_is_parsed() -> None:
    """Merges have no files; a file may be named like a commit."""
    sha = "a" * 40
    merge, plain = f"\0{sha}\0A\0e\0t\0Merge\n\0\0", f"\0{sha}\0A\0e\0t\0One\n\0\0\n{sha}\0b\nc\0"
    found = parse_log(f"{merge}{plain}{merge}".encode() + b"")
    assert [one.files for one in found] == [(), (sha, "b\nc"), ()]
    assert parse_log(b"") == []
    assert parse_log(b"\xff\0\0\0") == []
