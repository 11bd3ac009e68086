"""The layer between a process and the kernel (preload.c): built when it is missing, told what to do by environment.

layer = Layer(directory)
environment = layer.environment([Rule("die", "sync", "*.segment", 3)], shadow="*/journal/*")
... run something in it, end it ...
layer.power_cut(random.Random(7))
"""

import fcntl
import hashlib
import random
import struct
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tests.faults import power

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = Path(__file__).with_name("preload.c")
FLAGS: Final = ("-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-ldl", "-pthread")

Action = Literal["die", "die-after", "tear", "short", "full", "EIO", "ENOSPC", "EMFILE"]
Call = Literal["write", "sync", "open", "allocate", "rename", "unlink", "mkdir", "read", "send", "recv"]


class Rule(NamedTuple):
    """A fault: what happens instead of (or after) the `nth` such call, and where `onwards`, of every later one.

    `pattern` is that of a path, or of a connection, `tcp:LOCAL>REMOTE`. With `only_while`, a path, the rule counts and
    holds only while that file exists. preload.c has the words.
    """

    action: Action
    call: Call
    pattern: str
    nth: int = 1
    onwards: bool = False
    only_while: Path | None = None

    @property
    def line(self) -> str:
        """As the layer reads it."""
        nth = f"{self.nth}+" if self.onwards else str(self.nth)
        return f"{self.action} {self.call} {self.pattern} {nth} {self.only_while or ''}".strip()


class Layer:
    """What the layer needs of a directory: the log for a power cut, and the clock."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "unsynced"
        self._log.mkdir(exist_ok=True)
        self._clock = directory / "clock"
        self.set_clock(0)

    def environment(self, rules: Iterable[Rule] = (), shadow: str = "") -> dict[str, str]:
        """Variables for a process under these rules. `shadow` is the pattern of the paths that a power cut reaches."""
        variables = {
            "LD_PRELOAD": str(library()),
            "FAULTS_RULES": "\n".join(rule.line for rule in rules),
            "FAULTS_CLOCK": str(self._clock),
        }
        return {**variables, "FAULTS_SHADOW": shadow, "FAULTS_LOG": str(self._log)} if shadow else variables

    def set_clock(self, ahead_ns: int) -> None:
        """How far ahead of the true time the processes under the layer are, from now on."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("=q", ahead_ns))

    def power_cut(self, chance: random.Random | None) -> power.Cut:
        """Take from the files what was not synced, once the processes are gone; `power.cut`."""
        return power.cut(self._log, chance)


@cache
def library() -> Path:
    """The built layer. Raises CalledProcessError, with what the compiler says, where it cannot be built."""
    build = ROOT / "build" / "faults"
    build.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    made = build / f"preload-{digest}.so"
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of the suite may come at once
        if not made.exists():
            temporary = build / "preload.so"
            subprocess.run(["cc", str(SOURCE), *FLAGS, "-o", str(temporary)], check=True)
            temporary.rename(made)
    return made
