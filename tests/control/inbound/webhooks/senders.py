"""What the senders of webhooks publish, in one process of Node.js: it signs, and says what it would accept."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.programs import packages, program

FOLDER: Final = Path(__file__).parent / "javascript"


class Senders:
    """A running `sign.mjs`."""

    def __enter__(self) -> Self:
        packages(FOLDER)
        self._process = subprocess.Popen(
            [program("node"), "sign.mjs"], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def sign(self, cases: Iterable[Mapping[str, Any]]) -> list[str]:
        """A signature for each."""
        return [str(one) for one in self._ask({**case, "ask": "sign"} for case in cases)]

    def verify(self, cases: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Whether each is accepted."""
        return [bool(one) for one in self._ask({**case, "ask": "verify"} for case in cases)]

    def _ask(self, cases: Iterable[Mapping[str, Any]]) -> list[Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError
        self._process.stdin.write(json.dumps(list(cases)) + "\n")
        self._process.stdin.flush()
        answers: list[Any] = json.loads(self._process.stdout.readline())
        return answers
