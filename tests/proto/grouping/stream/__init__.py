"""A stream of errors as many services report them: 300 known bugs of twelve runtimes in 20 releases.

`occurrences` draws them by a seed, so that a stream is the same each time. Each release has its own lines, bundle
hashes and numbers of lambdas and proxies. Each occurrence has its own addresses, values in its message, depth of
recursion and order of middlewares. `runtimes` prints the stack traces.
"""

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.proto.grouping.pairs import Raised
from tests.proto.grouping.stream.bugs import Bug, bugs
from tests.proto.grouping.stream.draws import Build, Draws
from tests.proto.grouping.stream.runtimes import RUNTIMES

RELEASES: Final = 20


class Occurrence(NamedTuple):
    """An error with the number of its bug."""

    bug: int
    service: str
    release: str
    error: Raised


def occurrences(count: int, seed: int = 7) -> Iterator[Occurrence]:
    """So many errors: each bug at least once if there are 300 or more, most of them of few bugs, as it happens."""
    known = bugs()
    chance = random.Random(seed)
    builds = [Build(release) for release in range(RELEASES)]
    draws = Draws(chance)
    for number in range(count):
        bug = known[number] if number < len(known) else known[min(int(chance.expovariate(0.02)), len(known) - 1)]
        build = chance.choice(builds)
        yield Occurrence(bug.number, f"shop-{bug.runtime}", build.version, raised(bug, build, draws))


def raised(bug: Bug, build: Build, draws: Draws) -> Raised:
    """One occurrence of a bug."""
    return RUNTIMES[bug.runtime](bug, draws.message(bug.template), build, draws)
