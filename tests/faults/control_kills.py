"""`sluice control` killed again and again, while people ask and decide; and every message accounted for.

    python -m tests.faults.control_kills --count 200 --seed 7 [--database URL]

The seed gives the points and the calls at which the process dies; what is under way in that moment is the machine's.
Between two lives a minute and more passes for the service, so leases end. Prints a summary; exit code 1 when a message
is lost, told twice under different ids, or out of order.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.faults.asking import People, Told, settled
from tests.faults.office import Office
from tests.faults.points import ANY_MOMENT, OF_CONTROL, UNNAMED, Point, Round, plan
from tests.faults.zygote import Zygote

BETWEEN_S: Final = 70.0  # of the service's time: longer than a lease


@dataclass
class Kills:
    """What was done, and what came of it."""

    seed: int
    reached: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    told: Told = field(default_factory=Told)

    def __str__(self) -> str:
        count = self.reached.total() + self.passed_over.total()
        return (
            f"seed {self.seed}: {count} kills in {self.seconds:.0f} s, {self.reached.total()} where they were meant; "
            f"{self.told}"
        )


def kill_again_and_again(office: Office, seed: int, count: int) -> Kills:
    """Run the plan of a seed with people who go on all the while, and compare at the end."""
    points = OF_CONTROL[office.database_url.partition(":")[0]]
    done, began, people = Kills(seed), time.monotonic(), People(office)
    office.start()
    office.add_channels()
    office.kill()
    people.start()
    try:
        for a_round in plan(seed, count, points):
            _live_and_die(office, a_round, points.get(a_round.point), done)
            office.pass_by(BETWEEN_S)
        office.start()
    finally:
        people.finish()
    done.told = settled(office, people)
    done.seconds = time.monotonic() - began
    return done


def _live_and_die(office: Office, a_round: Round, point: Point | None, done: Kills) -> None:
    if point is None:
        office.begin()
        if a_round.point == ANY_MOMENT:
            office.wait_until_ready()
        time.sleep(a_round.delay_s)
        done.reached[a_round.point] += 1
    else:
        office.begin([point.rule(a_round.nth, **office.places)])
        (done.reached if office.ends_by_itself() else done.passed_over)[a_round.point] += 1
    office.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.control_kills", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--database", default="", help="URL of an empty PostgreSQL database; a SQLite file by default")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with TemporaryDirectory(prefix="sluice-kills-") as folder, Zygote() as zygote:
        office = Office(Path(folder), arguments.database or f"sqlite:///{folder}/shared.db", zygote)
        try:
            done = kill_again_and_again(office, arguments.seed, arguments.count)
            office.stop()
        finally:
            office.close()
    print(done)
    for point in (*OF_CONTROL[office.database_url.partition(":")[0]], *UNNAMED):
        elsewhere = f" ({done.passed_over[point]} not reached)" if done.passed_over[point] else ""
        print(f"{done.reached[point]:6} {point}{elsewhere}")
    return 1 if done.told.faults else 0


if __name__ == "__main__":
    sys.exit(main())
