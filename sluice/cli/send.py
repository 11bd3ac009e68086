"""`sluice send`: exports a small trace and a log record with the OpenTelemetry SDK, then reads them back through the
explore API.

The trace is a request to a web shop: a database call, a call to a payment service that fails, and a log record in the
failing span. `--traffic` adds an hour of the shop's traffic, with slow requests that have one cause. Credentials are
read from `bootstrap.json` and are not printed. If the services run separately, `--url` is the address of the gateway
and `--query-url` the address of the query service.
"""

import argparse
import json
import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from chassis.errors import StartupError
from control.identity.organizations.bootstrap import Bootstrap
from sluice import data_dir, extras, first_run
from sluice.settings_sources import SettingsSources

VISIBLE_WITHIN_S: Final = 20.0
_POLL_S: Final = 0.1
_RESPONSE_TIMEOUT_S: Final = 10.0
_RETRY_STATUSES: Final = (404, 503)  # not stored yet, or ClickHouse is unavailable


def run(arguments: argparse.Namespace) -> int:
    """Send, wait until the trace can be read, print it; the exit code. Raises StartupError."""
    extras.require("send", ["send"])
    from sluice import sample_export, sample_traffic

    directory = SettingsSources.from_arguments(arguments).chassis_settings().data_dir
    file = Path(arguments.file) if arguments.file else directory / first_run.FILE_NAME
    credentials = first_run.read(file)
    url = (arguments.url or data_dir.running_url(directory) or credentials.base_url).rstrip("/")
    query_url = (arguments.query_url or url).rstrip("/")
    explore = f"{query_url}/orgs/{credentials.org_slug}/projects/{credentials.project_slug}/explore"
    _require(url, f"{url}/v1/traces", "does not accept exports")
    _require(query_url, f"{explore}/spans", "has no explore API")
    sent = sample_export.send(url, credentials.legacy_key)
    trace = f"{explore}/traces/{sent.trace_id}"
    deadline = time.monotonic() + VISIBLE_WITHIN_S
    _wait_for(f"{trace}/logs", credentials, lambda logs: bool(logs["data"]), deadline)
    address = f"{trace}/waterfall"
    _show(_wait_for(address, credentials, lambda found: found["spanCount"] >= sent.spans, deadline), address, file)
    # If the services run separately, neither URL may serve the page.
    page_url = credentials.base_url if arguments.query_url else url
    site = f"{page_url}/ui/{credentials.org_slug}/{credentials.project_slug}" if _may_have_page(page_url) else None
    if site:
        print(f"\nIn a browser (`sluice open` logs you in):\n\n    {site}/trace/{sent.trace_id}")
    if arguments.traffic:
        traffic = sample_traffic.send(url, credentials.legacy_key)
        print(
            f"\nAlso sent: an hour of traffic, with {traffic.traces} traces, {traffic.spans} spans and "
            f"{traffic.log_records} log records."
        )
        if site:
            print(f"Some orders are slow. To find out why:\n\n    {site}/explore")
    return 0


def _require(url: str, path: str, lacking: str) -> None:
    """Raises StartupError if no service responds at `url`, or if the service returns 404 for `path`, because it lacks
    the API. Other errors show that the path exists.
    """
    if not url.startswith(("http://", "https://")):
        raise StartupError(f"{url} is not an http(s) URL.", exit_code=2)
    try:
        _get(path, None)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            raise StartupError(
                f"{url} {lacking}. If the services run separately, pass the URL of the gateway in --url and the URL of "
                f"the query service in --query-url."
            ) from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise StartupError(f"No response from {url} ({reason}). Is `sluice up` running there?") from error


def _may_have_page(url: str) -> bool:
    """False if the service at the URL has no page, such as a gateway. A public address may not be reachable from
    here."""
    try:
        _get(f"{url}/ui/", None)
    except urllib.error.HTTPError as error:
        return error.code != HTTPStatus.NOT_FOUND
    except OSError:
        pass
    return True


def _wait_for(
    address: str, credentials: Bootstrap, is_complete: Callable[[dict[str, Any]], bool], deadline: float
) -> dict[str, Any]:
    """The JSON at the address once it is complete: rows are stored about half a second after the response to their
    export, or when ClickHouse becomes available. Raises StartupError if it is not complete at the deadline, or if
    access is denied.
    """
    while True:
        document = _fetch_json(address, credentials)
        if document is not None and is_complete(document):
            return document
        if time.monotonic() > deadline:
            raise StartupError(
                f"The trace was accepted but is not available at {address} after {VISIBLE_WITHIN_S:g} s; `sluice "
                "doctor` checks ClickHouse."
            )
        time.sleep(_POLL_S)


def _fetch_json(address: str, credentials: Bootstrap) -> dict[str, Any] | None:
    """The JSON at the address; None if it is not stored yet (404) or ClickHouse is unavailable (503). Raises
    StartupError.
    """
    try:
        document: dict[str, Any] = json.loads(_get(address, credentials.access_token))
    except urllib.error.HTTPError as error:
        if error.code in _RETRY_STATUSES:
            return None
        if error.code == HTTPStatus.TOO_MANY_REQUESTS:
            from sluice.sample_export import retry_hint

            raise StartupError(f"{address} returned 429: {retry_hint(error.headers.get('Retry-After'))}") from error
        raise StartupError(f"{address} returned {error.code} {error.reason}.") from error
    except OSError as error:
        raise StartupError(f"{address} cannot be read: {error}.") from error
    return document


def _get(address: str, token: str | None) -> bytes:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - http(s) is checked above
    with urllib.request.urlopen(request, timeout=_RESPONSE_TIMEOUT_S) as response:  # noqa: S310
        body: bytes = response.read()
    return body


def _show(waterfall: dict[str, Any], address: str, file: Path) -> None:
    print(f"Sent and stored: {waterfall['spanCount']} spans, 1 log record.\n")
    for row in waterfall["rows"]:
        name = "  " * row["depth"] + row["name"]
        print(f"    {name:<34} {row['kind']:<9} {row['durationMs']:>9.3f} ms  {row['statusCode']}")
    token_command = f'sed -n \'s/.*"accessToken": *"\\([^"]*\\)".*/\\1/p\' {shlex.quote(str(file))}'
    print(f"\n{address}\n\nTo read the trace with the token from {file}:\n")
    print(f'    curl -sS -H "Authorization: Bearer $({token_command})" \\\n      {shlex.quote(address)}')
