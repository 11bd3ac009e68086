"""Prints inserts, parts, time to the answer and CPU for each scenario: `python -m benchmarks.parts [--seconds N]`."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.codec.__main__ import machine
from benchmarks.parts.load import Sender, Sent
from benchmarks.parts.scenarios import SCENARIOS, Scenario

SECONDS: Final = 20.0
WARM_UP_S: Final = 3.0
TABLES: Final = ("spans", "trace_index", "attribute_keys", "error_occurrences", "ingest_outcomes")


async def measure(scenario: Scenario, seconds: float, directory: str) -> None:
    """One scenario against a gateway of its own."""
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.parts.server", "--projects", str(scenario.projects)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SLUICE_DATA": directory, "SLUICE_LOG_LEVEL": "warning", **scenario.environment},
    )
    ready = await _told(server)
    senders = [Sender(stream, ready["port"], ready["keys"]) for stream in scenario.streams]
    begin = asyncio.get_running_loop().time() + WARM_UP_S
    running = [asyncio.ensure_future(sender.run(WARM_UP_S + seconds)) for sender in senders]
    await asyncio.sleep(WARM_UP_S)
    _tell(server)
    await asyncio.sleep(seconds)
    _tell(server)
    watched = await _told(server)
    await asyncio.gather(*running)
    _tell(server)
    await server.wait()
    print(f"\n## {scenario.name}\n\nLoad of the machine at the end: {os.getloadavg()[0]:.1f}")
    spans = 0
    for sender, stream in zip(senders, scenario.streams, strict=True):
        sent = [one for one in sender.sent if one.due >= begin]
        spans += stream.spans * sum(one.status == 200 for one in sent)
        print(_answers(f"{stream.name} ({stream.rate:g}/s of {stream.spans} spans)", sent))
    print(_tables(watched, seconds))
    print(
        f"CPU {watched['cpu_s'] / seconds:.2f} cores, {watched['cpu_s'] / max(spans, 1) * 1e6:.0f} us a span; "
        f"merges {watched['merges'] / seconds:.1f}/s, at most {watched['merges_at_once']} at once",
        flush=True,
    )


def _answers(name: str, sent: Sequence[Sent]) -> str:
    times = sorted(one.seconds for one in sent if one.status == 200) or [float("nan")]
    p50, p99 = (times[min(len(times) - 1, int(len(times) * q))] * 1000 for q in (0.5, 0.99))
    statuses = dict(sorted(Counter(one.status for one in sent).items()))
    return f"{name}: {statuses}; answer p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {times[-1] * 1000:.0f} ms"


def _tables(watched: dict[str, Any], seconds: float) -> str:
    lines = ["", "| table | inserts (parts made) a second | most active parts of a day |", "|---|---|---|"]
    lines += [
        f"| {table} | {watched['inserts'].get(table, 0) / seconds:.1f} | {watched['most'].get(table, 0)} |"
        for table in TABLES
    ]
    return "\n".join([*lines, ""])


async def _told(server: asyncio.subprocess.Process) -> Any:
    if server.stdout is None:
        raise RuntimeError("no pipe")
    line = await server.stdout.readline()
    if not line:
        raise RuntimeError("the gateway has ended")
    return json.loads(line)


def _tell(server: asyncio.subprocess.Process) -> None:
    if server.stdin is None:
        raise RuntimeError("no pipe")
    server.stdin.write(b"\n")


async def run(seconds: float, names: Sequence[str]) -> None:
    """All scenarios whose name holds one of `names`, or simply all."""
    for scenario in SCENARIOS:
        if not names or any(name in scenario.name for name in names):
            with tempfile.TemporaryDirectory(prefix="sluice-parts-") as directory:
                await measure(scenario, seconds, directory)


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each scenario")
    parser.add_argument("scenarios", nargs="*", help="parts of names; all without any")
    arguments = parser.parse_args()
    print(machine())
    asyncio.run(run(arguments.seconds, arguments.scenarios))


if __name__ == "__main__":
    main()
