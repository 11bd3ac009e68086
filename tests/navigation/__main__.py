"""`python -m tests.navigation --seed 7`: asks in which files some behaviours are, to see whether a newcomer finds them.

Draws routes, settings, metrics and log events of the product. Give the questions and CONTRIBUTING.md to a reader who
has seen nothing of the code but the names of its files; `--answers` prints the files that are right.
"""

import argparse
import ast
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("chassis", "control", "gateway", "query", "sluice", "web")
_LOG_METHODS: Final = frozenset({"info", "warning", "error", "exception"})
_SHARES: Final = {"route": 7, "setting": 2, "metric": 2, "log event": 3}


class Behaviour(NamedTuple):
    """What is asked for, and the file in which it is."""

    kind: str
    name: str
    file: str


@cache
def behaviours() -> list[Behaviour]:
    """Every one of the product, in the order of the files."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    handlers = dict(_routes())
    return [found for path in paths for found in _of_file(path, handlers)]


def draw(seed: int) -> list[Behaviour]:
    """Fourteen of them: each kind as often as `_SHARES` says."""
    generator, everything = random.Random(seed), behaviours()
    kinds = {kind: [each for each in everything if each.kind == kind] for kind in _SHARES}
    return [drawn for kind, share in _SHARES.items() for drawn in generator.sample(kinds[kind], share)]


def _routes() -> Iterator[tuple[str, str]]:
    """The name of each handler, and its route."""
    document = json.loads((ROOT / "sluice/openapi.json").read_text(encoding="utf-8"))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                yield _snake(operation["operationId"]), f"{method.upper()} {path}"


def _of_file(path: Path, handlers: dict[str, str]) -> Iterator[Behaviour]:
    file = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            if node.name in handlers and any(_name(each) == "route" for each in node.decorator_list):
                yield Behaviour("route", handlers[node.name], file)
        elif isinstance(node, ast.ClassDef) and "Settings" in map(_name, node.bases):
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            yield from (Behaviour("setting", field.id, file) for field in fields if isinstance(field, ast.Name))
        elif isinstance(node, ast.Call) and (text := _first_text(node)):
            yield from _of_call(node, text, file)


def _of_call(call: ast.Call, text: str, file: str) -> Iterator[Behaviour]:
    if re.fullmatch("sluice_[a-z_]+", text):
        yield Behaviour("metric", text, file)
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _LOG_METHODS:
        yield Behaviour("log event", text, file)


def _first_text(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _name(node: ast.expr) -> str:
    """The name of a decorator, with or without arguments, or of a base class."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else ""


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def main() -> None:
    """A line a question."""
    parser = argparse.ArgumentParser(prog="python -m tests.navigation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answers", action="store_true")
    arguments = parser.parse_args()
    for number, found in enumerate(draw(arguments.seed), 1):
        print(f"{number:2}. {found.kind} {found.name}" + (f" -> {found.file}" if arguments.answers else ""))


if __name__ == "__main__":
    main()
