"""The sources of the page: its types are those of the API, and its modules do not import each other in a circle."""

import re
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from tests.programs import packages, program
from tests.web.modules import ROOT, SOURCES

API_TYPES: Final = SOURCES / "api/api_types.ts"
IMPORTED: Final = re.compile(r"""(?:from|import\()\s*'(\.[^']*)'""")


def test_the_types_are_those_of_the_api(tmp_path: Path) -> None:
    """`make interface` makes them."""
    packages(ROOT / "web/page")
    made = tmp_path / "api_types.ts"
    command = [program("node"), str(ROOT / "web/page/types.mjs"), str(ROOT / "sluice/openapi.json"), str(made)]
    subprocess.run(command, check=True, timeout=60)
    assert made.read_text() == API_TYPES.read_text()


def module(path: Path) -> Path:
    """With its extension."""
    return next(found for found in (path.with_suffix(".ts"), path.with_suffix(".tsx")) if found.exists())


def test_nothing_imports_in_a_circle() -> None:
    """Also of types, and of views that are loaded when they are shown."""
    graph = {
        path: {module((path.parent / name).resolve()) for name in IMPORTED.findall(path.read_text())}
        for path in SOURCES.resolve().rglob("*.ts*")
    }
    assert len(graph) > 40
    TopologicalSorter(graph).prepare()
