"""The shape of the house: who may import whom, what an import does, what the distribution says of itself."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from operator import and_
from pathlib import Path

import pytest

from sluice import __version__

ROOT = Path(__file__).parents[1]
# `web`, the page, stands on the chassis alone.
PACKAGES = tuple(
    name for name in ("sluice", "gateway", "query", "control", "web", "chassis", "proto") if (ROOT / name).is_dir()
)
MAY_IMPORT = {
    "proto": {"proto"},
    "chassis": {"chassis", "proto"},
    "gateway": {"gateway", "chassis", "proto"},
    "query": {"query", "chassis", "proto"},
    "control": {"control", "chassis", "proto"},
    "web": {"web", "chassis"},
    "sluice": set(PACKAGES),
}
# What a pure package has no business with: the world outside its arguments.
IMPURE = {"asyncio", "socket", "os", "time", "logging", "structlog", "aiohttp", "sqlalchemy", "clickhouse_connect"}


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything that a file says; the tests below look at it several times."""
    wanted = (ast.Import, ast.ImportFrom, ast.Call, ast.ClassDef, ast.Assert)
    return tuple(node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, wanted))


def imported(path: Path) -> Iterator[str]:
    """Top-level names that a file imports, anywhere in it."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func) == "importlib.import_module"
        ):
            yield from (
                str(argument.value).partition(".")[0] for argument in node.args if isinstance(argument, ast.Constant)
            )


def modules(*packages: str) -> list[str]:
    names = []
    for path in sources(*packages):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def run_python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},  # what an import leaves is ours
    )


def test_imports_go_one_way_and_proto_is_pure() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in PACKAGES
        for path in sources(package)
        for name in imported(path)
        if (name in PACKAGES and name not in MAY_IMPORT[package]) or (package == "proto" and name in IMPURE)
    ]
    assert wrong == []


def test_proto_is_ours_and_not_that_of_proto_plus() -> None:
    spec = importlib.util.find_spec("proto")
    assert spec is not None
    assert spec.origin == str(ROOT / "proto" / "__init__.py")


@pytest.mark.parametrize(
    "option", [(), pytest.param(("-O",), marks=pytest.mark.long)], ids=["plain", "optimized"]
)  # under -O without our asserts, of which there are none; it compiles all that others have
def test_importing_any_module_does_nothing(option: tuple[str, ...]) -> None:
    """No file written, no socket, no thread, no child, no output, whatever is imported; held by an audit hook."""
    quiet = modules(*PACKAGES)
    quiet.remove("chassis.db.migrations.env")  # Alembic runs this file, it is no module of ours
    code = f"""
import sys, threading
FORBIDDEN = {{"socket.__new__", "socket.bind", "socket.connect", "subprocess.Popen", "os.mkdir", "os.remove",
              "os.rename", "sqlite3.connect", "os.fork"}}
ours = {quiet!r}
import importlib
# What others do at import is theirs; ours comes after.
for name in ("aiohttp.web", "clickhouse_connect", "sqlalchemy.ext.asyncio", "alembic.command", "structlog",
             "prometheus_client", "opentelemetry.sdk.trace.export", "opentelemetry.sdk._logs.export", "google.protobuf",
             "opentelemetry.proto.collector.trace.v1.trace_service_pb2", "requests", "backports.zstd", "isal.isal_zlib",
             "opentelemetry.exporter.otlp.proto.http.trace_exporter"):
    importlib.import_module(name)
threads = threading.active_count()
def hook(event, arguments):
    if event in FORBIDDEN or (event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")):
        if not str(arguments[0]).endswith((".pyc", ".pyo")) and ".pyc." not in str(arguments[0]):
            raise RuntimeError(f"{{event}} {{arguments}}")
sys.addaudithook(hook)
for name in ours:
    importlib.import_module(name)
assert_same = threading.active_count() == threads
sys.exit(0 if assert_same else "a thread was started")
"""
    done = run_python(code, *option)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(("service", "others"), [("gateway", "query control"), ("query", "gateway control")])
def test_a_service_starts_with_the_other_folders_deleted(service: str, others: str) -> None:
    blocked = others.split()
    code = f"""
import sys
class Deleted:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Deleted())
import {service}.app
from sluice.main import main
sys.exit(main(["{service}"]))
"""
    done = run_python(code)
    assert done.returncode == 2
    assert f"`sluice {service}` alone needs a ClickHouse server" in done.stderr


def test_control_starts_without_what_only_directories_need() -> None:
    """The library of SCIM takes a third of the CPU time of a start (`control.identity.scim.routes`)."""
    code = """
import sys
import control.app
print([name for name in ("pydantic", "scim2_models") if name in sys.modules])
import control.identity.scim.protocol.handlers
print([name for name in ("pydantic", "scim2_models") if name in sys.modules])
"""
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "[]\n['pydantic', 'scim2_models']\n"), done.stderr


def imported_modules(path: Path, known: set[str]) -> Iterator[str]:
    """Our modules that a file imports, anywhere in it."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)


def folder_imports(package: str) -> dict[str, dict[str, set[str]]]:
    """By folder of the package: which of its children (modules and sub-folders) import which others."""
    paths = dict(zip(modules(package), sources(package), strict=True))
    graphs: dict[str, dict[str, set[str]]] = {}
    for importer, path in paths.items():
        for module in imported_modules(path, set(paths)):
            ours, theirs = importer.split("."), module.split(".")
            depth = sum(accumulate((one == other for one, other in zip(ours, theirs, strict=False)), and_))
            if depth and depth < len(ours) and depth < len(theirs):  # a folder's own __init__ may show what is in it
                graph = graphs.setdefault(".".join(ours[:depth]), {})
                graph.setdefault(ours[depth], set()).add(theirs[depth])
    return graphs


def test_nothing_imports_in_a_circle() -> None:
    """Neither the folders of a package nor the modules of a folder."""
    circles = []
    for folder, graph in (each for package in PACKAGES for each in folder_imports(package).items()):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circles.append(f"{folder}: {' <- '.join(error.args[1])}")
    assert circles == []


def test_no_public_class_name_is_defined_twice_in_a_package() -> None:
    found = Counter(
        (package, node.name)
        for package in PACKAGES
        for path in sources(package)
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, times in found.items() if times > 1] == []


def test_no_assert_decides_anything_in_our_code() -> None:
    """Under `python -O` asserts are gone; a check must be an exception."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_no_file_is_a_drawer() -> None:
    """`utils` says that nobody thought about where something belongs."""
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
    assert [name for name in modules(*PACKAGES) if drawers & set(name.split("."))] == []


def test_every_package_of_the_house_is_in_the_distribution() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["tool"]["setuptools"]["packages"]["find"]["include"] == [f"{name}*" for name in PACKAGES]
    assert pyproject["project"]["scripts"] == {"sluice": "sluice.main:main"}
    without = [
        str(path.parent.relative_to(ROOT)) for path in sources(*PACKAGES) if not (path.parent / "__init__.py").exists()
    ]
    assert without == []


def test_versions_are_said_once() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sluice.__version__"}
    assert f"## {__version__} (" in changelog


@pytest.mark.parametrize("name", ["build", "run", "page", "dev", "deploy", "release"])
def test_locks_pin_versions_by_hash_and_name_no_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    requirements = [line for line in text.splitlines() if line and not line[0].isspace() and line[0] != "#"]
    assert requirements
    assert all(
        re.fullmatch(r'[A-Za-z0-9._-]+==[^ ]+( ; python_version < "[0-9.]+")? \\', line) for line in requirements
    )
    assert text.count("--hash=sha256:") >= len(requirements)
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


@pytest.mark.parametrize(
    "folder",
    [
        "web/page",
        "tests/e2e/javascript",
        "tests/control/identity/sso/oidc_server",
        "tests/control/inbound/webhooks/javascript",
    ],
)
def test_the_locks_of_javascript_pin_by_hash_and_name_no_host(folder: str) -> None:
    """But for the pages that ask for donations."""
    text = (ROOT / folder / "package-lock.json").read_text(encoding="utf-8")
    packages = {name: package for name, package in json.loads(text)["packages"].items() if name}
    assert packages
    for package in packages.values():
        assert package["version"]
        assert package["integrity"].startswith("sha512-")
        assert "resolved" not in package
        assert "://" not in json.dumps({name: value for name, value in package.items() if name != "funding"})


def test_the_build_requirements_are_the_locked_ones() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (ROOT / "requirements" / "build.in").read_text(encoding="utf-8").splitlines()
    assert set(pyproject["build-system"]["requires"]) <= set(lines)


def test_what_is_locked_is_what_is_declared() -> None:
    """A dependency added to pyproject.toml and not locked would be missing on a fresh machine."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [
        *pyproject["dependencies"],
        *(line for extra in pyproject["optional-dependencies"].values() for line in extra),
    ]
    names = {normal(re.split(r"[\[<>=; ]", line)[0]) for line in declared} - {"sluice"}  # of `all`, its parts
    text = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    locked = {normal(line.partition("==")[0]) for line in text.splitlines() if "==" in line}
    assert names - locked == set()


@pytest.mark.parametrize("name", ["run", "dev", "image"])
def test_locks_skip_packages_that_newer_pythons_do_not_need(name: str) -> None:
    """Such a package may have no wheel for a newer Python, and then `make run` would fail there."""
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    limited = dict(re.findall(r'"([\w.-]+)[^";]*;[^"]*python_version < \'([0-9.]+)\'', declared))
    assert limited
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    markers = dict(re.findall(r"(?m)^([\w.-]+)==[^ ]+ (.*)\\$", text))
    for package, version in limited.items():
        assert markers.get(normal(package)) in {f'; python_version < "{version}" ', None}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_kernel_is_built_in_continuous_integration() -> None:
    """Elsewhere the reference may stand in for it; CI must not pass on the reference alone."""
    built = importlib.util.find_spec("proto.otlp.kernel._kernel") is not None
    assert built or not os.environ.get("CI")


def test_what_the_makefile_names_is_there() -> None:
    """A moved test would leave a target without it, or broken."""
    named = set(
        re.findall(r"\b(?:tests|benchmarks|proto|requirements|scripts)/[\w./-]*\w", (ROOT / "Makefile").read_text())
    )
    assert {name for name in named if not list(ROOT.glob(name + "*"))} == set()
