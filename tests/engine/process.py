"""The engine as a process that a test starts, stops, kills and starts again."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from tests.ports import free_port

START_S: Final = 60.0
USER: Final = "sluice"
PASSWORD: Final = "hunter2 & more"  # needs percent encoding in a URL
QUOTED: Final = "hunter2%20%26%20more"


class Engine:
    """One directory and one port, which a restart keeps.

    The URLs name no database. `reader_url` is that of a user who may read and change settings (`readonly = 2`),
    `frozen_url` of one who may read alone (`readonly = 1`). `config` is a file of the engine's own.
    """

    def __init__(self, directory: Path, *, keep_alive_s: float = 10.0, config: Path | None = None) -> None:
        self._directory = directory
        self.port = free_port()
        self.url = f"http://{USER}:{QUOTED}@127.0.0.1:{self.port}"
        self.reader_url = f"http://reader:reader@127.0.0.1:{self.port}"
        self.frozen_url = f"http://frozen:frozen@127.0.0.1:{self.port}"
        self._more = ["--readonly-user=reader:reader", "--frozen-user=frozen:frozen", f"--keep-alive={keep_alive_s}"]
        self._more += [] if config is None else [f"--config={config}"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.engine", "--directory", str(self._directory), "--port", str(self.port)),
                *("--user", USER, "--password", PASSWORD, *self._more),
            ],
            stdout=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError("the engine did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it as an operator does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections are taken, nothing is answered."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=5) as answer:
                return bool(answer.read() == b"Ok.\n")
        except OSError:
            return False
