"""What was freed is given back, although something that is in use lies behind it."""

import subprocess
import sys

PROGRAM = """if True:
    import asyncio, ctypes, time
    from chassis import memory

    memory.EVERY_S = 0.01
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]

    async def main():
        context = memory.trimming(None)
        await anext(context)
        blocks = [libc.malloc(100_000) for _ in range(2_000)]  # below what is given back one by one
        for block in blocks:
            ctypes.memset(block, 1, 100_000)
        kept = libc.malloc(1_000)
        full = memory.resident()
        for block in blocks:
            libc.free(block)
        deadline = time.monotonic() + 20
        while memory.resident() > full - 150_000_000:
            assert time.monotonic() < deadline, (memory.resident(), full)
            await asyncio.sleep(0.01)

    asyncio.run(main())
"""


def test_freed_memory_goes_back_to_the_system() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
