"""`sluice release`: from a git checkout to the API."""

import asyncio
import json
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from chassis.errors import StartupError
from sluice.cli import release
from sluice.git_history import _name_of_remote, parse_log, read_commits
from sluice.main import main
from tests.control.code.suspects.stories import Step, change, history
from tests.control.conftest import Control
from tests.control.issues.releases.stored import issue, new_issue

MAYBE_CREDENTIALS = (
    "https://user:pa/ss@h/x/y",
    "user:pass@h:x/y",
    "helper::https://user:pw@h/x",
    "https:/user:pw@h/x",
    "FILE:///srv/x",
    "https://h/x\u202ey",
)


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
    command = f"release 1.0.0 --project web --org acme --server {server} --directory {checkout}"
    return await asyncio.to_thread(main, [*command.split(), *options])


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
    assert cut == "There are more than 1 commits; only the newest are reported. Use --since to select fewer."
    assert reported == "Reported 1.0.0: 1 commit, 1 of them new."


async def test_a_dry_run_prints_what_would_be_sent(
    control: Control, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And needs no token."""
    assert await run(control, checkout, "--dry-run", "--since", "HEAD~1", "--url", "https://ci.example.org/1") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["projects"], shown["url"]) == ("1.0.0", ["web"], "https://ci.example.org/1")
    assert [one["message"] for one in shown["commits"]] == ["Names \x1b[31m\n\nFixes WEB-1"]
    assert (await control.call("GET", "/orgs/acme/releases"))[1]["data"] == []


# An option, the exit code, and what is said.
FAULTS = (
    ("--directory=/", 1, "git failed in /: fatal: not a git repository"),
    ("--since=nothing", 1, "nothing is not a commit"),
    ("--since=--all", 1, "--all is not a commit"),
    ("--project=none", 1, "returned 400: The request body is not valid. body.projects[1]: Is not a project"),
    ("--org=globex", 1, "returned 404: Not found."),
    ("--token-file=/nowhere", 1, "/nowhere cannot be read"),
    ("--token-file=/dev/null", 2, "No access token: set RELEASE_TOKEN"),
    ("--server=ftp://example.org", 2, "is not an http(s) URL"),
    ("--server=http://127.0.0.1:1", 1, "No response from http://127.0.0.1:1/orgs/acme/releases"),
)


@pytest.mark.usefixtures("token")
async def test_what_fails_is_said_in_a_sentence(
    control: Control, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, code, sentence in FAULTS:
        assert await run(control, checkout, option) == code, option
        assert sentence in capsys.readouterr().err, option


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


def test_the_repository_is_named_by_its_remote() -> None:
    for address, name in (
        ("git@github.com:shop/web.git", "shop/web"),
        ("https://user:secret@git.example.org:8443/group/shop/web.git/", "group/shop/web"),
        ("ssh://git@git.example.org:22/shop/web", "shop/web"),
        ("HTTPS://user:pw@h/x/y.git", "x/y"),
        ("/srv/git/web.git", None),
        ("file:///srv/git/web.git", None),
        ("", None),
        *((address, None) for address in MAYBE_CREDENTIALS),
    ):
        assert _name_of_remote(address) == name, address


def test_any_output_of_git_is_parsed() -> None:
    """Merges have no files; a file may be named like a commit."""
    sha = "a" * 40
    merge, plain = f"\0{sha}\0A\0e\0t\0Merge\n\0\0", f"\0{sha}\0A\0e\0t\0One\n\0\0\n{sha}\0b\nc\0"
    found = parse_log(f"{merge}{plain}{merge}".encode() + b"")
    assert [one.files for one in found] == [(), (sha, "b\nc"), ()]
    assert parse_log(b"") == []
    assert parse_log(b"\xff\0\0\0") == []


def dry_run(capsys: pytest.CaptureFixture[str], directory: Path, *options: str) -> tuple[int, str, str]:
    """Exit code, what is printed, and what is said of faults."""
    code = main(["release", "1.0.0", "--project", "web", "--directory", str(directory), "--dry-run", *options])
    return code, *capsys.readouterr()


def with_files(bare: Path) -> Path:
    """A clone of it with its files."""
    clone = bare.parent / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", bare, clone], check=True)
    git(clone, "config", "remote.origin.url", "git@git.example.org:shop/web.git")
    return clone


def test_the_repository_names_no_program_that_runs(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A partial clone would fetch what it lacks."""
    checkout = with_files(checkout)
    ran, script = tmp_path / "ran", tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://h/a/b.git",
        "core.sshCommand": str(script),
        "core.fsmonitor": str(script),
        "diff.external": str(script),
    }.items():
        git(checkout, "config", name, value)
    tree = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD^{tree}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    objects = checkout / ".git" / "objects"
    for pack in (objects / "pack").glob("*.pack"):
        with pack.rename(tmp_path / pack.name).open("rb") as file:
            subprocess.run(["git", "-C", checkout, "unpack-objects", "-q"], check=True, stdin=file)
    lost = objects / tree[:2] / tree[2:]
    lost.unlink()
    code, _, fault = dry_run(capsys, checkout)
    assert (code, ran.exists()) == (1, False)
    assert "lacks a part of its history (it may be a partial clone)" in fault


def test_settings_of_git_change_nothing(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout = with_files(checkout)
    expected = dry_run(capsys, checkout, "--since", "HEAD~2")
    (tmp_path / "order").write_text("ü*\n")
    (tmp_path / "mailmap").write_text("Other <other@example.org> Ada <ada@example.org>\n")
    for name, value in {
        "diff.relative": "true",
        "diff.orderFile": str(tmp_path / "order"),
        "log.showRoot": "false",
        "log.date": "relative",
        "log.mailmap": "true",
        "mailmap.file": str(tmp_path / "mailmap"),
        "color.ui": "always",
        "diff.renames": "copies",
    }.items():
        git(checkout, "config", name, value)
    (checkout / "sub").mkdir()
    assert expected[0] == 0
    assert dry_run(capsys, checkout / "sub", "--since", "HEAD~2") == expected
    git(checkout, "tag", "-d", "v1")  # so that the first commit is listed
    shown = json.loads(dry_run(capsys, checkout / "sub")[1])
    assert [one["files"] for one in shown["commits"]] == [["b.py", "ü \ufffd.py"], ["b.py"], ["a.py"]]


def test_what_may_be_credentials_is_no_name(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(checkout, "config", "remote.origin.url", MAYBE_CREDENTIALS[0])
    message = "The name of the repository cannot be taken from the remote `origin`; use --repository."
    code, shown, fault = dry_run(capsys, checkout)
    assert (code, shown, message in fault) == (2, "", True)
    git(checkout, "config", "--unset", "remote.origin.url")
    assert "The repository has no remote `origin`" in dry_run(capsys, checkout)[2]


def test_an_odd_range_is_said_in_a_sentence(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, fault = dry_run(capsys, checkout, "--since", "HEAD", "--until", "HEAD~1")
    assert (code, "HEAD~1 is older than HEAD" in fault) == (2, True)
    assert dry_run(capsys, checkout, "--since", "HEAD")[0] == 0
    empty = tmp_path / "empty"
    subprocess.run(["git", "init", "-q", empty], check=True)
    assert f"{empty} has no commits yet." in dry_run(capsys, empty)[2]


def test_nothing_printed_moves_a_terminal(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = dry_run(capsys, checkout)
    assert (code, shown.isascii(), "\x1b" in shown) == (0, True, False)
    fault = dry_run(capsys, checkout, "--since", "a\x1b[31m\u202e\x9b")[2]
    assert "a\ufffd[31m\ufffd is not a commit" in fault
    code, _, fault = dry_run(capsys, checkout, "--environment", "\udcff")
    assert (code, "The argument environment is not valid UTF-8." in fault) == (2, True)


ANSWER = {"commitsUpserted": 0, "issuesResolved": ["\x1b]0;x\x07\u202e"], "issuesReopened": []}
# Status line and body of a server, and what is said of it.
ANSWERS = (
    ("200 OK", json.dumps(ANSWER), "Issues resolved: \ufffd]0;x\ufffd\n"),
    ("200 OK", "[]", "a Sluice API response"),
    ("200 OK", json.dumps(ANSWER | {"commitsUpserted": "1"}), "a Sluice API response"),
    ("200 OK", json.dumps(ANSWER | {"issuesResolved": [1]}), "a Sluice API response"),
    ("200 OK", "[" * 200_000, "a Sluice API response"),
    ("400 Bad", "[" * 200_000, "returned 400: Bad. The response is not from the Sluice API."),
    ("400 B\x1b[31m", "{}", "returned 400: B\ufffd[31m. The response is not from the Sluice API."),
    ("400 Bad", '{"error": {"message": "a\\u001bb", "details": 7}}', "The response is not from the Sluice API"),
    ("400 Bad", '{"error": {"message": "a\\u001bb"}}', "returned 400: a\ufffdb"),
)


def test_any_answer_is_said_in_a_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELEASE_TOKEN", "pat_x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for status, answer, sentence in ANSWERS:
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
            thread = threading.Thread(target=respond, args=(listener, (head + answer).encode()))
            thread.start()
            code = main(["release", "1", "--project", "web", "--directory", str(checkout), "--server", server])
            thread.join(10)
            shown, fault = capsys.readouterr()
            assert sentence in shown + fault, (status, answer[:100])
            assert code == (0 if "Issues" in sentence else 1)


def respond(listener: socket.socket, answer: bytes) -> None:
    """Read a whole request, and answer it."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as sent:
        length = 0
        while (line := sent.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        sent.read(length)
        connection.sendall(answer)
