"""Runs the locust file without its page against a `sluice up` that it starts.

Prints requests, failures and times by kind, and what became of the items in the gateway; writes Locust's HTML report.
`--host` takes a deployment that is there instead (LOAD_KEYS).
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.command import command
from benchmarks.overload.deployment import make_keys
from benchmarks.report import MIB, Table, print_machine, quantile
from tests.e2e.product import Sluice, eventually, running
from tests.faults.deployment import metric

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[1]
_LOCUST: Final = _ROOT / ".venv" / "load" / "bin" / "locust"


def main() -> None:
    """Starts the product, runs Locust, prints, stops."""
    parser = command(__package__, __doc__, seconds=30.0, settings=True)
    parser.add_argument("--users", type=int, default=60, help="senders")
    parser.add_argument("--projects", type=int, default=5)
    parser.add_argument("--host", default="", help="a deployment that is there; its keys in LOAD_KEYS")
    parser.add_argument("--report", type=Path, default=Path("build/locust.html"))
    arguments = parser.parse_args()
    if not _LOCUST.exists():
        sys.exit("Locust is not there: `make load` installs it, in an environment of its own.")
    print_machine()
    if arguments.host:
        _print(_run(arguments, arguments.host, os.environ.get("LOAD_KEYS", "").split(",")))
        return
    with TemporaryDirectory(prefix="sluice-locust-") as directory:
        sluice = running(Path(directory) / "data", Path(directory) / "log", **arguments.settings)
        try:
            keys = [sluice.key, *make_keys(f"sqlite:///{sluice.data}/sluice.db", sluice.org, arguments.projects - 1)]
            _print(_run(arguments, sluice.base_url, keys))
            _print_items(sluice)
            sluice.stop()
        finally:
            sluice.kill()


def _run(arguments: Namespace, host: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Locust's own figures, by kind of request."""
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    options = {
        "-f": _HERE / "locustfile.py",
        "--host": host,
        "--users": arguments.users,
        "--spawn-rate": max(1, arguments.users // 5),
        "--run-time": f"{arguments.seconds:g}s",
        "--html": arguments.report,
        "--loglevel": "WARNING",
    }
    words = [str(word) for option in options.items() for word in option]
    done = subprocess.run(
        [_LOCUST, *words, "--headless", "--only-summary", "--json", "--exit-code-on-error", "0"],
        env={**_environment(os.environ), "LOAD_KEYS": ",".join(keys)},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr.decode())
    figures: list[dict[str, Any]] = json.loads(done.stdout)
    print(f"{arguments.users} senders, {len(keys)} projects, {arguments.seconds:g} s; report: {arguments.report}")
    return figures


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without this environment's packages: Locust has others."""
    return {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _print(figures: Sequence[dict[str, Any]]) -> None:
    columns = {"requests": "", "sent": "", "failed": "", "a second": ".1f", "p50, p99, longest ms": ".0f"}
    table = Table(columns)
    for one in sorted(figures, key=lambda one: str(one["name"])):
        seconds = max(1e-9, one["last_request_timestamp"] - one["start_time"])
        times = [float(ms) for ms, count in one["response_times"].items() for _ in range(count)]
        longest = quantile(times, 0.5), quantile(times, 0.99), one["max_response_time"]
        table.row(one["name"], one["num_requests"], one["num_failures"], one["num_requests"] / seconds, longest)


def _print_items(sluice: Sluice) -> None:
    """Once everything is stored."""
    url = sluice.base_url
    eventually(lambda: metric(url, "sluice_gateway_pending_items") == 0, "all is stored", 60)
    accepted = metric(url, "sluice_gateway_items_total", outcome="accepted")
    stored = metric(url, "sluice_gateway_stored_items_total")
    resident = metric(url, "process_resident_memory_bytes") / MIB
    print(f"\n{accepted:.0f} items accepted, {stored:.0f} stored; {resident:.0f} MiB resident, the engine included")


if __name__ == "__main__":
    main()
