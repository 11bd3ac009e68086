"""What was freed is given back, although something that is in use lies behind it."""

import subprocess
import sys
from textwrap import dedent

import pytest

PROGRAM = dedent("""
    import asyncio, ctypes, sys
    from chassis.runtime import memory

    memory.tune_malloc()
    memory.TRIM_INTERVAL_S = 0.01
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]

    async def main():
        context = memory.trim_task(None)
        if "trim" in sys.argv:
            await anext(context)
        blocks = []
        for _ in range(2_000):
            blocks.append(libc.malloc(100_000))
            ctypes.memset(blocks[-1], 1, 100_000)
        kept = [blocks.pop(place) for place in range(1_999, 0, -100)]
        full = memory.resident_bytes()
        for block in blocks:
            libc.free(block)
        for _ in range(100):
            await asyncio.sleep(0.02)
            if memory.resident_bytes() < full - 100_000_000:
                break
        print(full - memory.resident_bytes())

    asyncio.run(main())
""")


@pytest.mark.parametrize("trims", [True, False], ids=["trimming", "left alone"])
def test_freed_memory_goes_back_to_the_system(*, trims: bool) -> None:
    arguments = ["trim"] if trims else []
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    assert (int(done.stdout) > 100_000_000) is trims
