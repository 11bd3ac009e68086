"""Names of files that no URL has as they are, and files that the server refuses, do not stop an upload."""

import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from .conftest import clean_environment, command


class Server(HTTPServer):
    """Stands in for the control API. `statuses`: its answers to paths, else 201; `paths`: what was uploaded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = dict[str, int]()
        self.paths = list[str]()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        (path,) = parse_qs(urlsplit(self.path).query)["url"]
        status = self.server.statuses.get(path, 201)
        error = {"error": {"message": "It is refused.", "details": []}}
        answer = {"path": path, "bytes": 3, "removedReleases": []} if status == 201 else error
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
        self.server.paths.append(path)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(server: Server, folder: Path, *names: str, more: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Exit code, standard output and error of an upload of scripts with these names."""
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("1")
        (folder / f"{name}.map").write_text('{"version": 3, "sources": [], "names": [], "mappings": "A"}')
    url = f"http://127.0.0.1:{server.server_port}"
    done = subprocess.run(
        command("sourcemaps", "upload", folder, "--release", "1", "--project", "web", "--server", url, *more),
        env=clean_environment(RELEASE_TOKEN="t"),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


ODD = os.fsdecode(b"a/b\xff.js")


def test_a_name_that_is_not_utf_8_is_named_and_the_rest_uploaded(server: Server, tmp_path: Path) -> None:
    code, out, err = run(server, tmp_path, ODD, "c.js")
    assert (code, server.paths) == (1, ["/c.js"])
    assert out == "/c.js  3 bytes compressed\nStored 1 source map for release 1.\n"
    assert err == "a/b\\xff.js: the name of the file is not UTF-8.\n1 source map was not uploaded.\n"


def test_a_dry_run_names_it_too(server: Server, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"alone\xff.js")).write_text("1")
    code, out, err = run(server, tmp_path, ODD, "c.js", more=("--dry-run",))
    assert (code, err) == (1, "a/b\\xff.js: the name of the file is not UTF-8.\n")
    assert out == f"/c.js  {tmp_path}/c.js.map\nNo source map found for: alone\\xff.js.\n"


def test_paths_are_as_frames_of_browsers_have_them(server: Server, tmp_path: Path) -> None:
    code, _, err = run(server, tmp_path, "a/sp ace#%41.js", "é@[id].js")
    assert (code, err) == (0, "")
    assert sorted(server.paths) == ["/%C3%A9@[id].js", "/a/sp%20ace%23%2541.js"]


@pytest.mark.parametrize("status", [400, 409, 413])
def test_a_refusal_of_one_file_does_not_stop_the_others(server: Server, tmp_path: Path, status: int) -> None:
    server.statuses["/b.js"] = status
    code, out, err = run(server, tmp_path, "a.js", "b.js", "c.js")
    assert (code, server.paths) == (1, ["/a.js", "/b.js", "/c.js"])
    assert out == "/a.js  3 bytes compressed\n/c.js  3 bytes compressed\nStored 2 source maps for release 1.\n"
    first, second = err.splitlines()
    assert first.startswith("b.js: http://127.0.0.1:")
    assert first.endswith(f" returned {status}: It is refused.")
    assert second == "1 source map was not uploaded."


def test_a_map_that_cannot_be_read_does_not_stop_the_others(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    (tmp_path / "a.js.map").write_text("no")
    code, _, err = run(server, tmp_path, "b.js")
    assert (code, server.paths) == (1, ["/b.js"])
    assert err == f"a.js: {tmp_path}/a.js.map is not a source map: it is not JSON.\n1 source map was not uploaded.\n"


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_other_refusals_stop_it(server: Server, tmp_path: Path, status: int) -> None:
    server.statuses["/a.js"] = status
    code, out, _ = run(server, tmp_path, "a.js", "b.js")
    assert (code, out, server.paths) == (1, "", ["/a.js"])
