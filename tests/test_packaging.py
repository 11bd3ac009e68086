"""The wheel: what is in it, and that a machine without a compiler gets one that works."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("sluice", "gateway", "query", "control", "chassis", "proto")
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tree with compilers that fail, without the network. What Cython has made of the kernel
    comes along if it is there: it is not made again.
    """
    source = tmp_path_factory.mktemp("source")
    left_out = shutil.ignore_patterns("__pycache__", "*.so")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(out))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(source)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        env={**os.environ, "CC": "/bin/false", "CXX": "/bin/false"},
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.iterdir()
    return built


def test_the_wheel_has_every_module_and_what_they_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".pyi", ".sql", ".typed"}
    }
    assert expected - names == set()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_without_a_compiler_the_decoder_in_python_takes_over(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = """
import proto, sys
assert_ours = proto.__file__.startswith(sys.argv[1])
from proto.otlp import codec
from proto.otlp.policy import Policy
from chassis import migrations, schema
decoded = codec.decode("traces", b"", 1, Policy(), 10**18)
print(assert_ours, codec.KERNEL, decoded.accepted, len(schema.migrations()) > 0)
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
