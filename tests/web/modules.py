"""The page's modules without DOM, in Node.js: bundled by the page's own esbuild, called with many arguments at once."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.programs import esbuild, program

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "web/page/src"
MODULES: Final = (
    *("address/return_path", "address/time", "api/numbers", "api/proof_of_work", "charts/axis", "filters/language"),
    *("trace/by_name", "trace/critical_path", "trace/rows", "trace/search", "ui/format"),
)


class Modules:
    """What `modules.mjs` can call."""

    def __init__(self, directory: Path) -> None:
        self._bundle = directory / "modules.mjs"
        entry = "".join(f"export * from './{name}';\n" for name in MODULES)
        command = [program("node"), str(esbuild()), "--bundle", "--format=esm", "--loader=ts", "--log-level=warning"]
        subprocess.run(
            [*command, f"--outfile={self._bundle}"], input=entry, text=True, check=True, cwd=SOURCES, timeout=60
        )

    def each(self, function: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """The answers to many calls of one function."""
        asked = json.dumps([[function, call] for call in calls])
        script = Path(__file__).with_suffix(".mjs")
        command = [program("node"), str(script), str(self._bundle)]
        ran = subprocess.run(command, check=False, input=asked.encode(), capture_output=True, timeout=120)
        assert ran.returncode == 0, ran.stderr.decode()
        answers: list[Any] = json.loads(ran.stdout)
        return answers

    def call(self, function: str, *given: Any) -> Any:
        return self.each(function, [given])[0]
