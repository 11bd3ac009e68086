"""`sluice send`: a small real trace and a log through the OpenTelemetry SDK, then read back through the explore API.

Sent is what a web shop would: a request with a database call, a call to a payment service that raises, and a log record
under the failing span. Credentials come from `bootstrap.json` and are not printed. Where services are apart, what is
sent goes to one address (`--url`) and is read at another (`--query-url`).
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
from control.identity.bootstrap import Bootstrap
from sluice import bootstrap_file, data_dir, extras
from sluice.settings_sources import SettingsSources

VISIBLE_WITHIN_S: Final = 20.0
_POLL_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 10.0
_RETRY_STATUSES: Final = (404, 503)  # neither stored, nor can be read, while ClickHouse is away


def run(arguments: argparse.Namespace) -> int:
    """Send, wait until it can be read, show it; the exit code. Raises StartupError with one sentence."""
    extras.require("send", ["send"])
    from sluice import sample_trace

    directory = SettingsSources.from_arguments(arguments).chassis_settings().data_dir
    file = Path(arguments.file) if arguments.file else directory / bootstrap_file.FILE_NAME
    known = bootstrap_file.read(file)
    url = (arguments.url or data_dir.running_url(directory) or known.base_url).rstrip("/")
    query_url = (arguments.query_url or url).rstrip("/")
    explore = f"{query_url}/orgs/{known.org_slug}/projects/{known.project_slug}/explore"
    _require(url, f"{url}/v1/traces", "takes no exports")
    _require(query_url, f"{explore}/spans", "has no explore API")
    sent = sample_trace.send(url, known.legacy_key)
    trace = f"{explore}/traces/{sent.trace_id}"
    deadline = time.monotonic() + VISIBLE_WITHIN_S
    _wait_for(f"{trace}/logs", known, lambda logs: bool(logs["data"]), deadline)
    address = f"{trace}/waterfall"
    _show(_wait_for(address, known, lambda waterfall: waterfall["spanCount"] >= sent.spans, deadline), address, file)
    return 0


def _require(url: str, path: str, lacking: str) -> None:
    """Raises StartupError where nothing answers, or a service without that path, which would be told as 405 or 401."""
    if not url.startswith(("http://", "https://")):
        raise StartupError(f"{url} is no http(s) URL.", exit_code=2)
    try:
        _get(path, None)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            raise StartupError(
                f"{url} {lacking}. Where services are apart, `sluice send` wants the address of the gateway in --url "
                "and that of the query service in --query-url."
            ) from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise StartupError(f"Nothing answers at {url} ({reason}); is `sluice up` running there?") from error


def _wait_for(
    address: str, known: Bootstrap, whole: Callable[[dict[str, Any]], bool], deadline: float
) -> dict[str, Any]:
    """What is at the address once it is `whole`: rows follow the answer to their export, by about half a second or as
    soon as ClickHouse is there. Raises StartupError when it does not come, or may not be read.
    """
    while True:
        seen = _fetch_json(address, known)
        if seen is not None and whole(seen):
            return seen
        if time.monotonic() > deadline:
            raise StartupError(
                f"The trace was accepted but is not at {address} after {VISIBLE_WITHIN_S:g} s; "
                "`sluice doctor` says whether ClickHouse is away."
            )
        time.sleep(_POLL_S)


def _fetch_json(address: str, known: Bootstrap) -> dict[str, Any] | None:
    """What is at the address; None for nothing yet. Raises StartupError."""
    try:
        seen: dict[str, Any] = json.loads(_get(address, known.access_token))
    except urllib.error.HTTPError as error:
        if error.code in _RETRY_STATUSES:
            return None
        if error.code == HTTPStatus.TOO_MANY_REQUESTS:
            from sluice.sample_trace import retry_hint

            raise StartupError(f"{address} answers 429: {retry_hint(error.headers.get('Retry-After'))}") from error
        raise StartupError(f"{address} answers {error.code} {error.reason}.") from error
    except OSError as error:
        raise StartupError(f"{address} cannot be read: {error}.") from error
    return seen


def _get(address: str, token: str | None) -> bytes:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - http(s) is checked above
    with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S) as answer:  # noqa: S310
        body: bytes = answer.read()
    return body


def _show(waterfall: dict[str, Any], address: str, file: Path) -> None:
    print(f"Sent and stored: {waterfall['spanCount']} spans, 1 log record.\n")
    for row in waterfall["rows"]:
        name = "  " * row["depth"] + row["name"]
        print(f"    {name:<34} {row['kind']:<9} {row['durationMs']:>9.3f} ms  {row['statusCode']}")
    read = f'sed -n \'s/.*"accessToken": *"\\([^"]*\\)".*/\\1/p\' {shlex.quote(str(file))}'
    print(f"\n{address}\n\nTo read it, with the token from {file}:\n")
    print(f'    curl -sS -H "Authorization: Bearer $({read})" \\\n      {shlex.quote(address)}')
