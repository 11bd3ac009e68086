"""Prints exports and explores side by side: `python -m benchmarks.mixed [--seconds N] [--share S] [NAME=VALUE ...]`.

First what the gateway takes at most, for five seconds; then `share` of it alone, then the same with twenty heavy
explores at once. The senders share the machine with what they measure. NAME=VALUE are settings of the product.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.codec.__main__ import machine
from benchmarks.mixed.explores import AT_ONCE, Asked, ask
from benchmarks.mixed.ingest import SPANS, Exporters, Sent
from tests.e2e.product import Sluice, running


def main() -> None:
    """Starts the product, measures, stops it."""
    arguments = _arguments()
    print(machine(), flush=True)
    with TemporaryDirectory(prefix="sluice-mixed-") as directory:
        # The limits of one principal are not what is measured: twenty people would have one each.
        settings = {"SLUICE_ANALYSIS_RATE": "0", "SLUICE_API_RATE": "0", **arguments.settings}
        sluice = running(Path(directory) / "data", Path(directory) / "log", **settings)
        try:
            asyncio.run(_measure(sluice, arguments))
            sluice.stop()
        finally:
            sluice.kill()


async def _measure(sluice: Sluice, arguments: argparse.Namespace) -> None:
    seconds: float = arguments.seconds
    exporters = Exporters(int(sluice.base_url.rpartition(":")[2]), sluice.key)
    await exporters.most()  # connections, caches, the first parts
    most = await exporters.most()
    rate = arguments.rate or most * arguments.share
    print(f"at most {most:.0f} exports a second of {SPANS} spans; {rate:.0f} are sent: {rate * SPANS:.0f} spans/s\n")
    print("| exports | asked | by status | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|---|")
    begun = len(exporters.sent)
    await exporters.steady(rate, seconds)
    _print("exports alone", exporters.sent[begun:])
    begun = len(exporters.sent)
    url = f"{sluice.query_url}/orgs/{sluice.org}/projects/{sluice.project}/explore"
    asking = asyncio.create_task(ask(url, sluice.token, seconds))
    await exporters.steady(rate, seconds)
    _print(f"exports beside {AT_ONCE} explores at once", exporters.sent[begun:])
    asked = await asking
    _print(f"explores, {AT_ONCE} at once", asked)
    for name in dict.fromkeys(one.name for one in asked):
        _print(f"- {name}", [one for one in asked if one.name == name])


def _print(what: str, answers: Sequence[Sent | Asked]) -> None:
    statuses = ", ".join(
        f"{status}: {count}" for status, count in sorted(Counter(one.status for one in answers).items())
    )
    times = sorted(one.seconds * 1e3 for one in answers if one.status == 200) or [float("inf")]
    p50, p99, longest = (times[min(len(times) - 1, int(len(times) * q))] for q in (0.5, 0.99, 1))
    print(f"| {what} | {len(answers)} | {statuses} | {p50:.0f} | {p99:.0f} | {longest:.0f} |", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase")
    parser.add_argument("--share", type=float, default=0.6, help="of what the gateway takes at most")
    parser.add_argument("--rate", type=float, default=0.0, help="exports a second, in the place of a share")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
