"""The examples of docs/clients.md run as they are printed; only the addresses are those of the test."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from tests.e2e.agents import CLIENT_SECONDS, JAVASCRIPT, client_environment, listens, node
from tests.e2e.product import Sluice, eventually, stop
from tests.e2e.reading import arrived
from tests.ports import free_port

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


def examples() -> list[str]:
    """The indented blocks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)*^ {4}.*\n", text, re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE).strip() + "\n" for block in blocks]


def example(opening: str) -> str:
    """The one that opens with these words."""
    (found,) = (block for block in examples() if block.startswith(opening))
    return found


def in_the_shell(sluice: Sluice, directory: Path, lines: str, addresses: Mapping[str, str]) -> list[str]:
    """What runs shell lines of the page where `data/bootstrap.json` is."""
    (directory / "data").mkdir()
    (directory / "data" / "bootstrap.json").write_text(f'{{\n  "legacyKey": "{sluice.key}"\n}}\n', encoding="utf-8")
    for written, real in addresses.items():
        assert written in lines
        lines = lines.replace(written, real)
    return ["bash", "-euc", lines]


def exported(sluice: Sluice, name: str) -> None:
    """One span of that name is there."""
    filters = quote(json.dumps([{"key": "name", "op": "eq", "value": name}]))
    (span,) = arrived(sluice, f"/spans?hours=1&filters={filters}", 1)
    assert (span["name"], span["serviceName"]) == (name, "shop")


def run(command: list[str], directory: Path) -> None:
    """Run it; it says nothing."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=client_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=CLIENT_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_python_as_the_page_has_it(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(example("from opentelemetry import trace\n"), encoding="utf-8")
    lines = example("secret() ") + f"{sys.executable} hello.py\n"
    run(in_the_shell(sluice, tmp_path, lines, {"http://127.0.0.1:4318": sluice.base_url}), tmp_path)
    exported(sluice, "hello from Python")


def test_logging_as_the_page_has_it(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(example("import logging\n"), encoding="utf-8")
    lines = example("secret() ") + f"{sys.executable} hello.py 2>/dev/null\n"
    run(in_the_shell(sluice, tmp_path, lines, {"http://127.0.0.1:4318": sluice.base_url}), tmp_path)
    (record,) = arrived(sluice, "/logs?hours=1&filters=left:3%20serviceName:shop", 1)
    assert (record["body"], record["severityText"]) == ("hello from logging", "WARN")


def test_javascript_as_the_page_has_it(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / "hello.mjs").write_text(example("import { trace }"), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(JAVASCRIPT / "node_modules")
    lines = example("secret() ") + f"{node()} hello.mjs\n"
    run(in_the_shell(sluice, tmp_path, lines, {"http://127.0.0.1:4318": sluice.base_url}), tmp_path)
    exported(sluice, "hello from JavaScript")


def test_rotel_as_the_page_has_it(sluice: Sluice, tmp_path: Path) -> None:
    http, grpc = free_port(), free_port()
    lines = f"""{example("secret() ")}
python() {{ {sys.executable} "$@"; }}
{example("export ROTEL_OTLP_HTTP_ENDPOINT")}"""
    lines = re.sub(r'^"', 'exec "', lines, flags=re.MULTILINE)  # the shell becomes the agent, which is ended below
    addresses = {
        "http://127.0.0.1:4318": sluice.base_url,
        "127.0.0.1:5318": f"127.0.0.1:{http}",
        "127.0.0.1:5317": f"127.0.0.1:{grpc}",
    }
    command = in_the_shell(sluice, tmp_path, lines, addresses)
    with (tmp_path / "log").open("wb") as log:
        agent = subprocess.Popen(command, cwd=tmp_path, env=client_environment(), stdout=log, stderr=log)
    try:
        eventually(lambda: agent.poll() is not None or listens(http), "Rotel listening")
        hello = example("from opentelemetry import trace\n").replace("from Python", "through Rotel")
        endpoint = f"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{http}"
        run(["env", endpoint, sys.executable, "-c", hello], tmp_path)
        exported(sluice, "hello through Rotel")
    finally:
        stop(agent)


def test_the_configuration_of_a_collector_is_whole() -> None:
    """No Collector is at hand; what is written down must at least be what one reads: YAML whose names fit together."""
    configuration = msgspec.yaml.decode(example("receivers:"))
    assert set(configuration["exporters"]) == {"otlp_http"}
    assert configuration["exporters"]["otlp_http"]["headers"] == {
        "x-legacy-auth": "Legacy legacy_key=${env:OTEL_PROJECT_KEY}"
    }
    for name in ("traces", "logs"):
        pipeline = configuration["service"]["pipelines"].pop(name)
        assert pipeline == {"receivers": list(configuration["receivers"]), "exporters": ["otlp_http"]}
    assert configuration["service"]["pipelines"] == {}, "metrics are not taken"
