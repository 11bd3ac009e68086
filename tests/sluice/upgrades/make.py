"""Writes a data directory with the code that is checked out, and what its API answers, as a fixture of `test_upgrades`.

python -m tests.sluice.upgrades.make clickhouse-2-relational-5

Run once for each migration, by the release that has it as its last; later releases read it. Keys that sign are not
kept: nothing in the directory needs them. What is sealed is sealed with a key that everybody knows.
"""

import base64
import json
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from proto.otlp.protobuf_writer import bytes_field
from tests.e2e.product import Service, Sluice, call, eventually, started
from tests.proto.otlp.realistic import NOW_NS
from tests.proto.otlp.realistic import request as realistic_request
from tests.proto.otlp.sent import attributes, pair, request, span, string

DAY_S = 86_400
ENVIRONMENT = {
    "SLUICE_RETENTION_DAYS": "0",  # what is kept gets older
    "SLUICE_CONTROL_SEALING_KEYS": "tests:" + base64.b64encode(bytes(range(32))).decode(),
}
KEYS = ("signing.key", "sealing.keys", "cursor.key", "bootstrap.json", "lock")
ISSUES = "/orgs/default/projects/default/issues"
PASSWORD = "correct horse battery"


def main(name: str) -> None:
    """Run the product, fill it, note what it answers, stop it, pack its directory."""
    target = Path(__file__).parent / name
    target.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        service = Service("up", data, Path(temporary) / "log", ENVIRONMENT)
        sluice = started(service, data)
        try:
            _fill(sluice)
            answers = {asked: _answer(sluice, asked) for asked in _questions()}
        finally:
            sluice.stop()
        (target / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
        for key in KEYS:
            (data / key).unlink(missing_ok=True)
        with tarfile.open(target / "data.tar.xz", "w:xz") as archive:
            archive.add(data, ".")


def _fill(sluice: Sluice) -> None:
    """Spans, logs and errors with an issue; a user, a second project, what a directory has provisioned; a release; an
    integration.
    """
    for signal in ("traces", "logs"):
        answer = sluice.export(signal, realistic_request(signal, 12).SerializeToString())
        assert answer.status == 200, answer.body
    event = bytes_field(11, bytes_field(2, b"exception") + attributes(3, pair("exception.message", string("timeout"))))
    answer = sluice.export("traces", request(span(event, start=NOW_NS, end=NOW_NS)))
    assert answer.status == 200, answer.body
    invited = _post(sluice, "/orgs/default/invitations", {"email": "ada@example.org", "role": "ADMIN"})
    accepted = {"inviteToken": invited["inviteToken"], "name": "Ada", "password": PASSWORD}
    _post(sluice, "/auth/invitations/accept", accepted)
    _post(sluice, "/orgs/default/projects", {"slug": "shop", "name": "Shop"})
    directory = _post(sluice, "/orgs/default/scim-tokens", {"name": "Directory"})["token"]
    grace = _post(sluice, "/scim/v2/default/Users", {"userName": "grace@example.org"}, directory)
    team = {"displayName": "Team", "members": [{"value": grace["id"]}]}
    _post(sluice, "/scim/v2/default/Groups", team, directory)
    eventually(lambda: _answer(sluice, _of_day("/logs"))["data"], "logs are stored")
    eventually(lambda: _answer(sluice, _of_day("/attributes"))["data"], "attribute keys are stored")
    commit = {"sha": "c0ffee00", "message": "Retry", "files": ["shop/cart.py"]}
    release = {"version": "1.4.2", "projects": ["default"], "repository": "shop/checkout", "commits": [commit]}
    _post(sluice, "/orgs/default/releases", release)
    eventually(lambda: _answer(sluice, ISSUES)["data"], "the issue")
    issue_id = _answer(sluice, ISSUES)["data"][0]["id"]
    _post(sluice, f"{ISSUES}/{issue_id}/links", {"url": "https://tracker.example.com/1"})
    _post(sluice, "/orgs/default/integrations", {"kind": "gitea", "name": "Forge"})
    time.sleep(3)  # what follows them: outcomes, errors


def _questions() -> list[str]:
    """Paths below the project's explore API, with the body of a POST; whole paths of the control API."""
    window = {"from": _day(0), "to": _day(1)}
    aggregate = {**window, "fn": "p95", "field": "durationMs", "groupBy": "serviceName"}
    return [
        *(_of_day(path) for path in ("/spans", "/logs", "/attributes", "/errors")),
        f"/spans/aggregate {json.dumps({**window, 'fn': 'count', 'groupBy': 'name'})}",
        f"/spans/aggregate {json.dumps(aggregate)}",
        *("/orgs/default/members", "/orgs/default/projects", "/orgs/default/invitations"),
        *("/orgs/default/scim-settings", "/orgs/default/scim-tokens"),
        *(ISSUES, "/orgs/default/releases", "/orgs/default/changes"),
    ]


def _of_day(path: str) -> str:
    return f"{path}?from={_day(0)}&to={_day(1)}"


def _day(after: int) -> str:
    """Midnight of the items' day, or a day after it."""
    return time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime((NOW_NS // 10**9 // DAY_S + after) * DAY_S))


def _answer(sluice: Sluice, asked: str) -> Any:
    path, _, body = asked.partition(" ")
    whole = path if path.startswith("/orgs/") else f"/orgs/default/projects/default/explore{path}"
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    answer = call("POST" if body else "GET", f"{sluice.url_of(whole)}{whole}", body.encode() or None, headers)
    assert answer.status == 200, (asked, answer.body)
    found = answer.json()
    found.pop("endpoint", None)  # of this process
    return found


def _post(sluice: Sluice, path: str, body: object, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token or sluice.token}", "Content-Type": "application/json"}
    answer = call("POST", f"{sluice.control_url}{path}", json.dumps(body).encode(), headers)
    assert answer.status in (200, 201), answer.body
    return answer.json()


if __name__ == "__main__":
    main(sys.argv[1])
