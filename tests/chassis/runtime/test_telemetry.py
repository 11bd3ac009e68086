"""Log lines are JSON, and no secret is in them, wherever it stood."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from chassis.runtime.telemetry import MASK, Telemetry, redact_text
from tests.logs import captured_log

SECRET = "hunter2hunter2"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where this process logs to, put back afterwards."""
    with captured_log() as stream:
        yield stream


def only(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def test_a_line_says_who_when_how_bad_and_what(stream: io.StringIO) -> None:
    structlog.get_logger("gateway").warning("store unavailable", attempts=3, address="http://host:8123")
    line = only(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "store unavailable",
        "logger": "gateway",
        "level": "warning",
        "attempts": 3,
        "address": "http://host:8123",
    }


def test_lines_of_libraries_have_the_same_form(stream: io.StringIO) -> None:
    logging.getLogger("aiohttp.server").error("failed for %s", f"http://user:{SECRET}@host/")
    line = only(stream)
    assert (line["logger"], line["level"]) == ("aiohttp.server", "error")
    assert line["event"] == f"failed for http://{MASK}@host/"


def test_lines_below_the_level_are_not_written(stream: io.StringIO) -> None:
    structlog.get_logger("gateway").debug("detail")
    logging.getLogger("library").debug("detail")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "name",
    ["authorization", "Authorization", "token", "password", "legacy_key", "dsn", "X-Legacy-Auth", "access_token"],
)
def test_values_of_secret_names_are_masked_at_any_depth(stream: io.StringIO, name: str) -> None:
    structlog.get_logger("gateway").info("seen", **{name: SECRET}, headers={name: SECRET}, pairs=[{name: SECRET}])
    line = only(stream)
    assert SECRET not in json.dumps(line)
    assert (line[name], line["headers"], line["pairs"]) == (MASK, {name: MASK}, [{name: MASK}])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://user:{SECRET}@host:8443/db", f"https://{MASK}@host:8443/db"),
        (f"dsn was http://{SECRET}@host/42", f"dsn was http://{MASK}@host/42"),
        (f"Bearer {SECRET}", f"Bearer {MASK}"),
        (f"authorization: bearer {SECRET}, next", f"authorization: bearer {MASK}, next"),
        (f"GET /v1/traces?legacy_key={SECRET}", f"GET /v1/traces?legacy_key={MASK}"),
        (f"token pat_{SECRET}.", f"token pat_{MASK}"),
        (f"scim_{SECRET} and whsec_{SECRET}", f"scim_{MASK} and whsec_{MASK}"),
        ("nothing to hide at http://host/path", "nothing to hide at http://host/path"),
    ],
)
def test_secrets_inside_texts_are_masked(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_tracebacks_are_masked(stream: io.StringIO) -> None:
    try:
        raise ValueError(f"cannot open https://user:{SECRET}@host")
    except ValueError:
        structlog.get_logger("gateway").exception("failed")
    line = only(stream)
    assert "ValueError" in line["exception"]
    assert SECRET not in line["exception"]


async def test_a_process_tells_what_it_is_and_what_it_takes() -> None:
    telemetry = Telemetry("gateway")
    telemetry.set_build_info("1.2.3", "kernel")
    text = (await telemetry.merged_exposition()).decode()
    assert 'sluice_build_info{decoder="kernel",service="gateway",version="1.2.3"} 1.0\n' in text
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_max_fds"):
        assert f"\n{name} " in text
    assert "_created" not in text
