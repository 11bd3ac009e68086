"""How large the code is, by package: what a machine counts, so that no formatter and no comment changes it."""

import ast
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.programs import packages

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("chassis", "control", "gateway", "proto", "query", "sluice", "web")
OTHERS: Final = ("benchmarks", "tests")
PAGE: Final = "web/page/src"
SUITE: Final = "lines of tests"
GENERATED: Final = frozenset({"api_types.ts"})
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """`units`: statements of Python, or nodes of TypeScript's syntax tree; `lines`: of the files, with all in them."""

    units: int
    lines: int


@cache
def sizes() -> dict[str, Size]:
    """Of every package, and of the page; files that git does not know do not count."""
    found = {package: python_size(_files(package, ".py", ".pyx", ".pxi")) for package in (*PRODUCT, *OTHERS)}
    return found | {PAGE: _typescript(_files(PAGE, ".ts", ".tsx"))}


def statements(source: str) -> int:
    """Python statements, without docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    documented = sum(
        ast.get_docstring(node, clean=False) is not None for node in nodes if isinstance(node, _DOCUMENTED)
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - documented


def ceilings() -> dict[str, int]:
    """The most units of each package, and lines of the suite."""
    found: dict[str, int] = json.loads(Path(__file__).with_name("ceilings.json").read_text())
    return found


def python_size(files: list[Path]) -> Size:
    """Cython's dialect has lines and no statements: `ast` does not read it."""
    sources = [path.read_text(encoding="utf-8") for path in files if path.suffix == ".py"]
    return Size(sum(map(statements, sources)), _lines(files))


def _files(folder: str, *suffixes: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name.endswith(suffixes)]
    return [path for path in paths if path.exists() and path.name not in GENERATED]


def _lines(files: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in files)


def _typescript(files: list[Path]) -> Size:
    packages(ROOT / "web/page")
    command = [ROOT / ".venv/bin/node", Path(__file__).with_name("nodes.mjs")]
    given = json.dumps([str(path) for path in files])
    done = subprocess.run(command, cwd=ROOT / "web/page", input=given, capture_output=True, text=True, check=True)
    return Size(int(done.stdout), _lines(files))
