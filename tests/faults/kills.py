"""A gateway under load, killed again and again, and every record accounted for.

    python -m tests.faults.kills --count 1000 --seed 7

The seed gives the points and the calls at which the process dies; what is under way in that moment is the machine's.
Prints a line per hundred kills and a summary; exit code 1 when a record is lost or doubled. Writes nothing outside a
temporary directory.
"""

import argparse
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.faults import power
from tests.faults.clients import Load
from tests.faults.deployment import Gateway, Site, settled
from tests.faults.points import ANY_MOMENT, EVERY, ITS_START, Point, Round, plan
from tests.faults.reconciliation import Reconciliation
from tests.faults.zygote import Zygote
from tests.ports import free_port

REACHED_S: Final = 3.0  # a point that is not reached by then is passed over, and the process killed where it is
CALM_S: Final = 60.0  # for the last requests


@dataclass
class Kills:
    """What was done, and what came of it."""

    seed: int
    reached: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cut: power.Cut = field(default_factory=lambda: power.Cut(0, 0, 0, 0))
    records: Reconciliation = field(default_factory=Reconciliation)

    @property
    def count(self) -> int:
        return self.reached.total() + self.passed_over.total()

    def __str__(self) -> str:
        said = [f"seed {self.seed}: {self.count} kills in {self.seconds:.0f} s"]
        if self.passed_over:
            said.append(f"{self.passed_over.total()} of them elsewhere, for their point was not reached")
        if any(self.cut):
            said.append(
                "power cuts: " + ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in self.cut._asdict().items())
            )
        return "; ".join([*said, f"records: {self.records}"])


def kill_again_and_again(site: Site, gateway: Gateway, seed: int, count: int, points: Mapping[str, Point]) -> Kills:
    """Run the plan of a seed with clients that send all the while, and compare at the end. They send over gRPC if the
    gateway has a port for it.

    Each kill is a power cut too where the gateway has a shadow: every other takes all that was not synced, the rest
    what chance has.
    """
    done, began = Kills(seed), time.monotonic()
    run = f"kills-{seed}-{secrets.token_hex(4)}"
    load = Load(gateway.url, site.key, run, clients=3, rate=25.0, grpc_port=gateway.grpc_port)
    load.start()
    patience = 0.0
    try:
        for number, a_round in enumerate(plan(seed, count, points), 1):
            _live_and_die(gateway, a_round, points.get(a_round.point), done)
            if gateway.shadow:
                cut = gateway.layer.power_cut(random.Random(seed + number) if number % 2 else None)
                done.cut = power.Cut(*map(sum, zip(done.cut, cut, strict=True)))
            if number % 100 == 0:
                print(f"{number} kills, {load.acknowledged} of {len(load.exports)} requests acknowledged", flush=True)
        gateway.start()
        patience = CALM_S
    finally:
        exports = load.finish(patience)
    done.records = settled(site, gateway, exports, load.run)
    done.seconds = time.monotonic() - began
    return done


def _live_and_die(gateway: Gateway, a_round: Round, point: Point | None, done: Kills) -> None:
    places: dict[str, Path | int] = {
        "journal": gateway.journal,
        "store": gateway.store_port,
        "own": gateway.grpc_port or gateway.port,
    }
    rules = [point.rule(a_round.nth, **places)] if point else []
    gateway.begin(rules)
    if point is None:
        if a_round.point == ANY_MOMENT:
            gateway.wait_until_ready()
        time.sleep(a_round.delay_s)
        done.reached[a_round.point] += 1
    else:
        reached = gateway.ends_by_itself(REACHED_S)
        (done.reached if reached else done.passed_over)[a_round.point] += 1
    gateway.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--grpc", action="store_true", help="clients send over gRPC")
    parser.add_argument("--power", action="store_true", help="each kill takes what was not synced, as a power cut")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with TemporaryDirectory(prefix="sluice-kills-") as folder, Zygote() as zygote:
        site = Site(Path(folder))
        gateway = Gateway(
            site,
            Path(folder) / "gateway",
            zygote=zygote,
            shadow=arguments.power,
            grpc_port=free_port() if arguments.grpc else 0,
        )
        try:
            done = kill_again_and_again(site, gateway, arguments.seed, arguments.count, EVERY)
            gateway.stop()
        finally:
            gateway.kill()
            site.close()
    print(done)
    for point in (*EVERY, ANY_MOMENT, ITS_START):
        elsewhere = f" ({done.passed_over[point]} not reached)" if done.passed_over[point] else ""
        print(f"{done.reached[point]:6} {point}{elsewhere}")
    return 1 if done.records.faults else 0


if __name__ == "__main__":
    sys.exit(main())
