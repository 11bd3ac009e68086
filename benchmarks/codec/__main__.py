"""Prints what decoding costs on this machine: CPU time of each way to decode, and memory of the largest requests."""

import sys

from benchmarks.codec import memory, speed
from benchmarks.command import command
from benchmarks.report import print_machine
from proto.otlp import codec


def main() -> None:
    """Runs what was asked for; without the kernel there is nothing to compare."""
    arguments = command(__package__, __doc__, parts=("speed", "memory"), rounds=15).parse_args()
    if not codec.KERNEL:
        sys.exit("the kernel is not built: run `make setup` with a C compiler")
    print_machine()
    if "speed" in arguments.parts:
        speed.measure("traces", arguments.rounds)
        speed.measure("logs", arguments.rounds)
    if "memory" in arguments.parts:
        memory.measure()


if __name__ == "__main__":
    main()
