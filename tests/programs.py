"""Programs that tests start and PyPI does not bring: `scripts/prerequisites` puts them beside the interpreter."""

import shutil
import sys
from pathlib import Path


def program(name: str) -> str:
    """Its path: the one of this environment, or else the machine's."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        raise AssertionError(f"{name} is missing; `scripts/prerequisites test` and `make test` bring it")
    return found
