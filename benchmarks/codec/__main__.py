"""Prints what decoding costs on this machine: `python -m benchmarks.codec [speed|memory]`, both without an argument."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.codec import memory, speed
from proto.otlp import codec


def machine() -> str:
    """Processor, system and the versions that matter."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("protobuf", "opentelemetry-proto", "msgspec"))
    return f"{os.cpu_count()} x {model}; {platform.platform()}; Python {platform.python_version()}; {packages}"


def main() -> None:
    """Runs what was asked for; without the kernel there is nothing to compare."""
    if not codec.KERNEL:
        sys.exit("the kernel is not built: run `make setup` with a C compiler")
    print(machine())
    asked = sys.argv[1:] or ["speed", "memory"]
    if "speed" in asked:
        speed.measure("traces")
        speed.measure("logs")
    if "memory" in asked:
        memory.measure()


if __name__ == "__main__":
    main()
