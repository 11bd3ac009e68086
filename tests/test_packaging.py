"""The wheel: what is in it, and that a machine without a compiler, or without the extras, gets one that works."""

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sluice import __version__
from sluice.extras import MODULES

ROOT = Path(__file__).parents[1]
PACKAGES = ("sluice", "gateway", "query", "control", "web", "chassis", "proto")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked sdist, built from a copy of the tree that is no checkout. SLUICE_COMMIT names the commit."""
    home = tmp_path_factory.mktemp("sdist")
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "page")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, home / "source" / name, ignore=left_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, home / "source")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    build([sys.executable, "-c", code, str(home)], cwd=home / "source", SLUICE_COMMIT=COMMIT)
    (archive,) = home.glob("*.tar.gz")
    shutil.unpack_archive(archive, home, filter="data")
    return home / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist with compilers that fail, without the network. Cython's output is copied from the tree if it
    is there, because Cython takes seconds.
    """
    for made in ROOT.glob("proto/otlp/kernel/*.cpp"):
        shutil.copy(made, sdist / "proto/otlp/kernel")
    out = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(out))
    build([sys.executable, "-m", "pip", "wheel", *options, str(sdist)], cwd=out, CC="/bin/false", CXX="/bin/false")
    (built,) = out.iterdir()
    return built


def build(command: list[str], cwd: Path, **settings: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env={**kept, **settings}
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_every_module_and_what_they_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".pyi", ".sql", ".css", ".json", ".typed"} and "web/page" not in str(path)
    }
    assert expected - names == set()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_without_a_compiler_the_decoder_in_python_takes_over(wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(wheel, tmp_path, "zip")
    code = """
import proto, sys
assert_ours = proto.__file__.startswith(sys.argv[1])
from proto.otlp import codec
from proto.otlp.policy import Policy
from chassis.clickhouse import migrations
decoded = codec.decode("traces", b"", 1, Policy(), 10**18)
print(assert_ours, codec.KERNEL, decoded.accepted, len(migrations.migrations()) > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.stdout, done.stderr) == ("True False 0 True\n", "")


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def without_extras(requirements: list[str]) -> set[str]:
    """The distributions that these bring, with what they need in turn."""
    found, left = set[str](), [Requirement(each) for each in requirements]
    while left:
        each = left.pop()
        needed = [Requirement(text) for text in metadata.requires(each.name) or ()]
        for extra in ("", *each.extras):
            left += [one for one in needed if _applies(one, extra) and canonicalize_name(one.name) not in found]
        found.add(canonicalize_name(each.name))
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`sluice` in an environment where `pip install` was given the wheel and no extra. What the wheel needs is linked
    from here, so that no index is asked.
    """
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    for name in without_extras(project()["dependencies"]):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(str(distribution.locate_file(top)))
    options = ("--no-index", "--no-deps", "--quiet", "--disable-pip-version-check")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", *options, str(wheel)],
        check=True,
        timeout=TIMEOUT_S,
    )
    return home / "bin" / "sluice"


def test_a_wheel_from_an_sdist_says_the_commit_and_the_decoder(bare: Path, sdist: Path) -> None:
    assert (sdist / "sluice/commit.txt").read_text() == f"{COMMIT}\n"
    done = run(bare, "--version", PATH="")  # without Git
    expected = f"sluice {__version__} (commit {COMMIT[:12]}, decoder in Python)\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_an_sdist_packed_again_does_not_depend_on_time_owner_or_order(tmp_path: Path) -> None:
    repack = runpy.run_path(str(ROOT / "scripts/release"))["repack"]
    packed = []
    for number, names in enumerate((["a", "b"], ["b", "a"])):
        archive, target = tmp_path / f"{number}.tar.gz", tmp_path / f"packed-{number}.tar.gz"
        with tarfile.open(archive, "w:gz") as files:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid, member.mode = 1, 10**9 + number, number, 0o600 + number * 0o40
                files.addfile(member, io.BytesIO(b"x"))
        repack(archive, target, 10**9)
        packed.append(target.read_bytes())
    assert packed[0] == packed[1]


def run(sluice: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "PYTHON"))}
    return subprocess.run(
        [str(sluice), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=sluice.parent,
        env={**kept, **settings},
    )


SERVER = {"SLUICE_CLICKHOUSE_URL": "http://127.0.0.1:1/telemetry"}
NEEDS = {
    "up": (["up"], {}, ["gateway", "control", "grpc", "embedded"]),
    "up over servers": (
        ["up"],
        SERVER | {"SLUICE_DATABASE_URL": "postgresql://127.0.0.1:1/x", "SLUICE_REDIS_URL": "redis://127.0.0.1:1"},
        ["gateway", "control", "grpc", "postgresql", "redis"],
    ),
    "gateway": (["gateway"], SERVER, ["gateway", "grpc"]),
    "gateway without gRPC": (["gateway"], SERVER | {"SLUICE_GRPC_PORT": ""}, ["gateway"]),
    "query": (["query"], SERVER | {"SLUICE_REDIS_URL": "redis://127.0.0.1:1"}, ["redis"]),
    "control": (["control"], SERVER, ["control"]),
    "migrate": (["migrate"], {}, ["embedded"]),
    "send": (["send"], {}, ["send"]),
    "journal": (["journal", "inspect"], {}, ["gateway"]),
    "repair": (["repair", "--from", "2026-11-20", "--to", "2026-11-20"], {}, ["gateway"]),
}


# One process for all commands: none of them comes further than to what it misses.
IN_TURN = """
import contextlib, io, json, os, sys
from sluice.main import main

def tried(arguments, settings):
    os.environ.update(settings)
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    for name in settings:
        del os.environ[name]
    return code, out.getvalue(), errors.getvalue()

print(json.dumps([tried(*each) for each in json.loads(sys.argv[1])]))
"""


def test_without_the_extras_that_a_command_needs_it_says_what_to_install(bare: Path, tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data")]
    commands = [([*arguments, *data], settings) for arguments, settings, _ in NEEDS.values()]
    done = run(bare.with_name("python"), "-c", IN_TURN, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    for (name, (arguments, _, extras)), told in zip(NEEDS.items(), json.loads(done.stdout), strict=True):
        install = f"pip install 'sluice[{','.join(extras)}]', or 'sluice[all]' for everything.\n"
        code, out, sentence = told
        assert (code, out, sentence.count("\n")) == (1, "", 1), name
        assert sentence.startswith(f"sluice: `sluice {arguments[0]}` needs "), name
        assert sentence.endswith(f"): {install}"), name
    assert not (tmp_path / "data").exists()


def test_without_extras_other_commands_say_no_more_than_what_is_missing(bare: Path, tmp_path: Path) -> None:
    data = ["--data", str(tmp_path)]
    assert run(bare, "config", *data).returncode == 0
    done = run(
        bare, "doctor", *data, SLUICE_CLICKHOUSE_URL=f"chdb://{tmp_path}/x", SLUICE_REDIS_URL="redis://localhost"
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "chdb, which is not installed: pip install 'sluice[embedded]'." in done.stdout
    assert "redis, which is not installed: pip install 'sluice[redis]'." in done.stdout
    done = run(bare, "init", *data, SLUICE_DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("psycopg, which is not installed: pip install 'sluice[postgresql]'.\n")


def test_every_extra_is_known_by_its_modules_and_all_is_all_of_them() -> None:
    extras = project()["optional-dependencies"]
    brought = {
        name: {canonicalize_name(Requirement(each).name) for each in extras[name]} - {"async-timeout"}
        for name in MODULES  # async-timeout is the Redis client's affair
    }
    distributions = metadata.packages_distributions()
    for extra, modules in MODULES.items():
        tops = {top for module in modules for top in distributions[module.partition(".")[0]]}
        assert brought[extra] - {"backports-zstd"} <= {canonicalize_name(top) for top in tops}, extra
    (everything,) = extras["all"]
    known = set(MODULES) | {"uvloop"}
    assert (set(re.findall(r"[a-z]+", everything)) - {"sluice"}, set(extras) - {"all", "dev"}) == (known, known)
