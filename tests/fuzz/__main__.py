"""`python -m tests.fuzz TARGET --seconds N`: fuzz one target, or `all`, each for so long. docs/fuzzing.md."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz import run
from tests.fuzz.build import BuildError
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=20, help="how long, each target (default 20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once (default: processors)")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="run these inputs once and stop")
    parser.add_argument(
        "--minimise", action="store_true", help="make the committed corpus anew, from all inputs so far"
    )
    parser.add_argument("option", nargs="*", help="options for libFuzzer, after --")
    arguments = parser.parse_args()
    names = list(TARGETS) if arguments.target == "all" else [arguments.target]
    try:
        with ThreadPoolExecutor(arguments.jobs) as pool:  # each waits for a process
            return max(pool.map(lambda name: _one(name, arguments), names))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1


def _one(name: str, arguments: argparse.Namespace) -> int:
    if arguments.replay:
        return run.replay(name, arguments.replay)
    if arguments.minimise:
        return run.minimise(name)
    return run.fuzz(name, arguments.seconds, arguments.option)


if __name__ == "__main__":
    sys.exit(main())
