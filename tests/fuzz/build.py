"""The kernel with clang's sanitizers and coverage hooks, in a directory of its own: the installed one is not touched.

Two builds. `plain` is the kernel as it is. `tight` allocates exactly what is asked for at every step and keeps no
memory for later, so that a buffer has no slack that hides an overrun, and whatever grows moves. A stamp keeps a build
until the sources change.
"""

import fcntl
import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.programs import program

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build" / "fuzz"
SOURCES: Final = ROOT / "proto" / "otlp" / "kernel"
HOOK: Final = Path(__file__).with_name("mutator_hook.c")
VARIANTS: Final = ("plain", "tight")
FLAGS: Final = (
    *("-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-std=c++17", "-fno-strict-aliasing"),
    "-fsanitize=address,undefined,fuzzer-no-link",
    "-fno-sanitize=function,vptr",  # need symbols that the fuzzer's runtime has not; the kernel has neither
    "-fno-sanitize-recover=undefined",
    "-Wno-unused-function",
)
# What makes a kernel tight: a line of its sources, and what stands there instead.
TIGHT: Final = {
    "bytes.pxi": (
        "    cdef size_t cap = buf.cap * 2 if buf.cap else 256\n",
        "    cdef size_t cap = buf.size + extra\n",
    ),
    "_kernel.pyx": ("    SPARE_BYTES = 1048576\n", "    SPARE_BYTES = 0\n"),
}


class BuildError(Exception):
    """There is no sanitized kernel; the message says why."""


def kernel(variant: str) -> Path:
    """The module of `variant`, as `build` leaves it."""
    return BUILD / variant / "_kernel.so"


def hook() -> Path:
    """What lets libFuzzer find a mutator that is written in Python."""
    return BUILD / "mutator_hook.so"


def build() -> None:
    """Builds what is missing or out of date; BuildError when it cannot."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the fuzz processes of several targets may begin together
        _build_unless_made()


def _build_unless_made() -> None:
    stamp, wanted = BUILD / "stamp", _wanted()
    made = [hook(), *map(kernel, VARIANTS)]
    if stamp.exists() and stamp.read_text() == wanted and all(path.exists() for path in made):
        return
    stamp.unlink(missing_ok=True)
    _run(program("clang"), "-O1", "-fPIC", "-shared", str(HOOK), "-o", str(hook()))
    for variant in VARIANTS:
        print(f"building the kernel with sanitizers ({variant})", flush=True)
        _build_kernel(variant)
    stamp.write_text(wanted)


def _wanted() -> str:
    """What the builds depend on, as one digest."""
    digest = hashlib.sha256(" ".join((sys.version, *FLAGS)).encode())
    for path in (*sorted(SOURCES.glob("*.p[yx]*")), HOOK, Path(__file__)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _build_kernel(variant: str) -> None:
    folder = BUILD / variant
    folder.mkdir(parents=True, exist_ok=True)
    for path in SOURCES.glob("*.p[yx]*"):
        text = path.read_text()
        if variant == "tight" and path.name in TIGHT:
            before, after = TIGHT[path.name]
            if text.count(before) != 1:
                raise BuildError(f"{path.name} has not the line {before.strip()!r} that the tight build replaces.")
            text = text.replace(before, after)
        (folder / path.name).write_text(text)
    source, compiled = folder / "_kernel.cpp", folder / "_kernel.o"
    _run(sys.executable, "-m", "cython", "--cplus", "-3", str(folder / "_kernel.pyx"), "-o", str(source))
    include = f"-I{sysconfig.get_path('include')}"
    _run(program("clang++"), *FLAGS, include, "-c", str(source), "-o", str(compiled))
    # Linked without the sanitizers' own libraries: what is preloaded has them.
    linked = folder / "linked.so"
    _run(program("clang++"), "-shared", str(compiled), "-o", str(linked))
    linked.replace(kernel(variant))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
