"""Prints exports and explores side by side.

First what the gateway takes at most, for five seconds; then `share` of it alone, then the same with twenty heavy
explores at once. The senders share the machine with what they measure.
"""

import asyncio
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.command import command
from benchmarks.mixed.explores import AT_ONCE, Asked, ask
from benchmarks.mixed.ingest import SPANS, Exporters, Sent, dated_requests
from benchmarks.report import Table, by_status, print_machine, quantiles_ms
from tests.e2e.product import Sluice, running


def main() -> None:
    """Starts the product, measures, stops it."""
    parser = command(__package__, __doc__, seconds=60.0, settings=True)
    parser.add_argument("--share", type=float, default=0.6, help="of what the gateway takes at most")
    parser.add_argument("--rate", type=float, default=0.0, help="exports a second, in the place of a share")
    arguments = parser.parse_args()
    print_machine()
    with TemporaryDirectory(prefix="sluice-mixed-") as directory:
        # The limits of one principal are not what is measured: twenty people would have one each.
        settings = {"SLUICE_ANALYSIS_RATE": "0", "SLUICE_API_RATE": "0", **arguments.settings}
        sluice = running(Path(directory) / "data", Path(directory) / "log", **settings)
        try:
            asyncio.run(_measure(sluice, arguments))
            sluice.stop()
        finally:
            sluice.kill()


async def _measure(sluice: Sluice, arguments: Namespace) -> None:
    seconds: float = arguments.seconds
    exporters = Exporters(sluice.writer.port, dated_requests(sluice.key))
    await exporters.most()  # connections, caches, the first parts
    most = await exporters.most()
    rate = arguments.rate or most * arguments.share
    print(f"at most {most:.0f} exports a second of {SPANS} spans; {rate:.0f} are sent: {rate * SPANS:.0f} spans/s")
    table = Table({"exports": "", "asked": "", "by status": "", "p50, p99, longest ms": ".0f"})
    begun = len(exporters.sent)
    await exporters.steady(rate, seconds)
    _print(table, "exports alone", exporters.sent[begun:])
    begun = len(exporters.sent)
    url = f"{sluice.query_url}/orgs/{sluice.org}/projects/{sluice.project}/explore"
    asking = asyncio.create_task(ask(url, sluice.token, seconds))
    await exporters.steady(rate, seconds)
    _print(table, f"exports beside {AT_ONCE} explores at once", exporters.sent[begun:])
    asked = await asking
    _print(table, f"explores, {AT_ONCE} at once", asked)
    for name in dict.fromkeys(one.name for one in asked):
        _print(table, f"- {name}", [one for one in asked if one.name == name])


def _print(table: Table, what: str, answers: Sequence[Sent | Asked]) -> None:
    times = quantiles_ms([one.seconds for one in answers if one.status == 200], 0.5, 0.99, 1)
    table.row(what, len(answers), by_status(Counter(one.status for one in answers)), times)


if __name__ == "__main__":
    main()
