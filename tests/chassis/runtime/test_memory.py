"""Memory that a process has had once is not fetched again."""

import subprocess
import sys
from textwrap import dedent

ROUNDS = 4
BLOCKS = 8  # of a round, all of them there at once
BLOCK_BYTES = 3 * 2**20
PAGE = 4096

_SCRIPT = dedent(f"""
    import resource, sys
    from chassis.runtime import memory

    if "keep" in sys.argv:
        memory.tune_malloc()
    for _ in range({ROUNDS}):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [bytearray(b"x") * {BLOCK_BYTES} for _ in range({BLOCKS})]
        del blocks
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    print(faults)
""")


def test_blocks_are_kept_for_the_next_ones() -> None:
    pages = BLOCKS * BLOCK_BYTES // PAGE
    assert faults_of_last_round() > pages // 2, "without it the system gives the same pages again and again"
    assert faults_of_last_round("keep") < pages // 20


def faults_of_last_round(*arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)
