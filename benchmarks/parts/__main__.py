"""Prints inserts, parts, time to the answer and CPU for each scenario: `python -m benchmarks.parts [--seconds N]`.

The scenarios take turns, round after round, so that whatever else the machine does meets all of them; what is printed
is the median round, and of parts the most of any.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.codec.__main__ import machine
from benchmarks.parts.load import Sender, Sent
from benchmarks.parts.scenarios import SCENARIOS, Scenario

SECONDS: Final = 10.0
ROUNDS: Final = 3
WARM_UP_S: Final = 3.0
TABLES: Final = ("spans", "trace_index", "attribute_keys", "ingest_outcomes")


class Round(NamedTuple):
    """What one round of a scenario showed: requests by stream, what the server watched, and the machine's load."""

    sent: Sequence[Sequence[Sent]]
    watched: dict[str, Any]
    load: float


async def measure(scenario: Scenario, seconds: float, directory: str) -> Round:
    """One round against a gateway of its own."""
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.parts.server", "--projects", str(scenario.projects)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SLUICE_DATA": directory, "SLUICE_LOG_LEVEL": "error", **scenario.environment},
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
    return Round([[one for one in sender.sent if one.due >= begin] for sender in senders], watched, os.getloadavg()[0])


def show(scenario: Scenario, rounds: Sequence[Round], seconds: float) -> None:
    """Print the median of a scenario's rounds."""
    loads = ", ".join(f"{one.load:.1f}" for one in rounds)
    print(f"\n## {scenario.name}\n\nLoad of the machine, round by round: {loads}")
    for number, stream in enumerate(scenario.streams):
        name = f"{stream.name} ({stream.rate:g}/s of {stream.spans} spans)"
        print(_answers(name, [one.sent[number] for one in rounds]))
    print("\n| table | inserts (parts made) a second | most active parts of a day |\n|---|---|---|")
    for table in TABLES:
        inserts = median(one.watched["inserts"].get(table, 0) for one in rounds) / seconds
        print(f"| {table} | {inserts:.1f} | {max(one.watched['most'].get(table, 0) for one in rounds)} |")
    merges = median(one.watched["merges"] for one in rounds) / seconds
    cores = median(one.watched["cpu_s"] for one in rounds) / seconds
    cost = median(one.watched["cpu_s"] / max(1, _stored(scenario, one)) for one in rounds) * 1e6
    at_once = max(one.watched["merges_at_once"] for one in rounds)
    print(
        f"\nCPU {cores:.2f} cores, {cost:.0f} us a span; merges {merges:.1f}/s, at most {at_once} at once", flush=True
    )


def _answers(name: str, rounds: Sequence[Sequence[Sent]]) -> str:
    statuses = dict(sorted(Counter(one.status for sent in rounds for one in sent).items()))
    p50, p99, longest = (median(_quantile(sent, q) for sent in rounds) * 1000 for q in (0.5, 0.99, 1.0))
    return f"{name}: {statuses}; answer p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {longest:.0f} ms"


def _quantile(sent: Sequence[Sent], q: float) -> float:
    times = sorted(one.seconds for one in sent if one.status == 200) or [float("inf")]
    return times[min(len(times) - 1, int(len(times) * q))]


def _stored(scenario: Scenario, one: Round) -> int:
    return sum(
        stream.spans * sum(sent.status == 200 for sent in requests)
        for stream, requests in zip(scenario.streams, one.sent, strict=True)
    )


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


async def run(seconds: float, rounds: int, scenarios: Sequence[Scenario]) -> None:
    """All scenarios in turn, `rounds` times; then the figures."""
    seen: dict[str, list[Round]] = {scenario.name: [] for scenario in scenarios}
    for _ in range(rounds):
        for scenario in scenarios:
            with tempfile.TemporaryDirectory(prefix="sluice-parts-") as directory:
                seen[scenario.name].append(await measure(scenario, seconds, directory))
    for scenario in scenarios:
        show(scenario, seen[scenario.name], seconds)


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each round of a scenario")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("scenarios", nargs="*", help="parts of names; all without any")
    arguments = parser.parse_args()
    chosen = [
        scenario
        for scenario in SCENARIOS
        if not arguments.scenarios or any(name in scenario.name for name in arguments.scenarios)
    ]
    print(machine(), flush=True)
    asyncio.run(run(arguments.seconds, arguments.rounds, chosen))


if __name__ == "__main__":
    main()
