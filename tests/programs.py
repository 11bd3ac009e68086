"""Files that tests need beside Python's packages: programs of Debian, packages of npm, the built page.

`make test` sets all of these up before it begins. If a test runs alone (`make test T=...`, or pytest), the test calls
`make` for a missing file when it needs the file.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ".venv/.page"
_TARGETS: Final = {"chromium": "browser", "node": ".venv/.dev"}  # all others: `programs`


def program(name: str) -> str:
    """Its path: in this environment, otherwise in PATH. Raises AssertionError if it cannot be had."""
    if found := _find(name):
        return found
    _make(target := _TARGETS.get(name, "programs"))
    if found := _find(name):
        return found
    raise AssertionError(f"{name} is missing, also after `make {target}`")


def made(target: str | Path) -> Path:
    """The path of a file of the Makefile, below the root: it is made if it is missing."""
    path = ROOT / target
    if not path.exists():
        _make(str(path.relative_to(ROOT)))
    return path


def packages(folder: Path) -> Path:
    """The `node_modules` of a folder with packages of npm."""
    return made((folder / "node_modules/.made").relative_to(ROOT)).parent


def esbuild() -> Path:
    """The bundler that builds the page; an argument of node."""
    return packages(ROOT / "web/page") / "esbuild/bin/esbuild"


def _find(name: str) -> str | None:
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def _make(target: str) -> None:
    """One process at a time: steps install into one environment."""
    with (ROOT / "Makefile").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"`make {target}` failed:\n{done.stdout}{done.stderr}"
