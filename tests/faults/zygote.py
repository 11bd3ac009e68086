"""Starts `sluice` as often as it is told to, without its second of imports: each time a fork of this process.

A line of JSON in, {"arguments": [...], "environment": {...}, "log": PATH}; the process id out, then how it ended, as
`os.waitpid` says it. One runs at a time. Under the layer (preload.c) every fork reads rules of its own. `Forked` is one
of them, `Zygote` speaks to the process that forks.
"""

import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

from sluice.main import main as command
from tests.e2e.product import clean_environment
from tests.faults import preload


class Zygote:
    """A process that forks `sluice`; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment({"LD_PRELOAD": str(preload.library())}),
            cwd=preload.ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whoever started something from it has ended that."""
        self._process.communicate()

    def begin(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> "Forked":
        """Run the command with these arguments; does not wait."""
        order = {"arguments": arguments, "environment": dict(environment), "log": str(log)}
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the zygote has no pipes")
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Forked(int(self._process.stdout.readline()), self._process.stdout)


class Forked:
    """A running command; as much of `subprocess.Popen` as is needed."""

    def __init__(self, pid: int, reports: Any) -> None:
        self.pid = pid
        self._reports = reports
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has. Raises TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("sluice", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Unless it has ended: it is not reaped before its end is read."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._reports], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._reports.readline()))
        return self.returncode


def main() -> None:
    """Import once, then fork for every line."""
    importlib.import_module("gateway.app")  # what the command imports when it is told what to run
    importlib.import_module("control.app")
    importlib.import_module("sluice.cli.serve_one")
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(order)
        _say(child)
        _say(os.waitpid(child, 0)[1])


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _become(order: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        os.environ.clear()
        os.environ.update(order["environment"])
        out = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, number in ((nothing, 0), (out, 1), (out, 2)):
            os.dup2(descriptor, number)
        code = command(order["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 (a fork must not go on as the zygote)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)  # nothing of the zygote's own end


if __name__ == "__main__":
    main()
