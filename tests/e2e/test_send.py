"""`sluice send` against every deployment: services behind one address, and apart."""

import json
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryFile

from tests.e2e.product import START_SECONDS, Sluice, call, clean_environment, eventually
from tests.forks import Command

NOWHERE = "http://127.0.0.1:1"  # as a public address may be from here


def send(sluice: Sluice, directory: Path, *arguments: str, base_url: str = NOWHERE) -> subprocess.CompletedProcess[str]:
    """With the credentials of the deployment."""
    known = {
        "baseUrl": base_url,
        "orgSlug": sluice.org,
        "projectSlug": sluice.project,
        "projectId": sluice.project_id,
        "legacyKey": sluice.key,
        "dsn": "",
        "accessToken": sluice.token,
    }
    (directory / "bootstrap.json").write_text(json.dumps(known), encoding="utf-8")
    with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as errors:
        called = ["send", "--data", str(directory), *arguments]
        process = Command(called, clean_environment({}), stdout=out, stderr=errors)
        code = process.wait(START_SECONDS)
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), errors.read())


def test_what_is_sent_to_the_gateway_is_read_at_the_query_service(sluice: Sluice, tmp_path: Path) -> None:
    done = send(sluice, tmp_path, "--url", sluice.gateway_url, "--query-url", sluice.query_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Sent and stored: 3 spans, 1 log record.\n")
    assert f"\n{sluice.query_url}/orgs/{sluice.org}/projects/{sluice.project}/explore/traces/" in done.stdout
    assert f"\n    {NOWHERE}/ui/{sluice.org}/{sluice.project}/trace/" in done.stdout


def test_a_page_is_named_where_there_is_one(sluice: Sluice, tmp_path: Path) -> None:
    urls = ("--url", sluice.gateway_url, "--query-url", sluice.query_url)
    done = send(sluice, tmp_path, *urls, base_url=sluice.gateway_url)
    assert done.returncode == 0
    assert ("/ui/" in done.stdout) == (sluice.gateway_url == sluice.query_url)


def test_traffic_is_stored_as_said_and_its_slow_requests_have_one_cause(sluice: Sluice, tmp_path: Path) -> None:
    """A shop's traffic is told from what other tests have sent by an attribute of its requests."""
    done = send(sluice, tmp_path, "--url", sluice.gateway_url, "--query-url", sluice.query_url, "--traffic")
    assert (done.returncode, done.stderr) == (0, "")
    said = re.search(r"an hour of traffic, with (\d+) traces, (\d+) spans and (\d+) log records", done.stdout)
    assert said is not None
    traces = int(said[1])

    def spans(filters: str) -> int:
        url = f"{sluice.query_url}/orgs/{sluice.org}/projects/{sluice.project}/explore/spans/figures"
        asked = {"from": "now-2h", "to": "now", "figures": [{"fn": "count"}], "filters": filters}
        headers = {"authorization": f"Bearer {sluice.token}", "content-type": "application/json"}
        answer = call("POST", url, json.dumps(asked).encode(), headers)
        return int(answer.json()["groups"][0]["count"])

    eventually(lambda: spans("has:shop.region") == traces, "all requests of the traffic")
    slow = "durationMs:>400 kind:SERVER serviceName:payment release"
    eventually(lambda: spans(f"{slow}:1.4.2"), "the cause")
    assert spans(f"{slow}:1.4.1") == 0, "and there is no other"


def test_one_address_is_enough_where_it_has_both_and_asks_for_the_other_where_not(
    sluice: Sluice, tmp_path: Path
) -> None:
    both = (
        " If the services run separately, pass the URL of the gateway in --url and the URL of the query service in"
        " --query-url.\n"
    )
    for url, lacking in ((sluice.gateway_url, "has no explore API."), (sluice.query_url, "does not accept exports.")):
        done = send(sluice, tmp_path, "--url", url)
        if sluice.gateway_url == sluice.query_url:
            assert (done.returncode, done.stderr) == (0, "")
        else:
            assert (done.returncode, done.stdout, done.stderr) == (1, "", f"sluice: {url} {lacking}{both}")
