"""Builds the decoder kernel, and writes the commit into what is built; everything else is in pyproject.toml.

The kernel is optional: without a C++ compiler the install succeeds, says so, and the decoder in Python is used.
"""

import os
import subprocess
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

COMMIT_FILE = "sluice/commit.txt"  # sluice.build_info reads it


def commit() -> str | None:
    """The commit of the checkout that is built. An archive of the source has the file."""
    if "SLUICE_COMMIT" in os.environ or not Path(".git").exists():
        return os.environ.get("SLUICE_COMMIT")
    try:
        return subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()  # noqa: S607
    except (OSError, subprocess.CalledProcessError):
        return None


def write_commit(directory: str) -> None:
    known = commit()
    if known:
        Path(directory, COMMIT_FILE).write_text(f"{known}\n", encoding="ascii")


class BuildPy(build_py):
    """With the commit in what is installed, but for an editable installation: its commit changes."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_commit(self.build_lib)


class SourceDistribution(sdist):
    """With the commit in the archive."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_commit(base_dir)


kernel = Extension(
    "proto.otlp.kernel._kernel",
    ["proto/otlp/kernel/_kernel.pyx"],
    language="c++",
    # Many small functions on a hot path: the usual limits on inlining cost a third of the speed.
    extra_compile_args=[
        "-O3",
        "-std=c++17",
        "-g0",
        "-fno-strict-aliasing",
        "--param=max-inline-insns-single=2000",
        "--param=inline-unit-growth=500",
        "--param=large-function-growth=2000",
        "--param=large-unit-insns=200000",
    ],
)

modules = cythonize([kernel], language_level=3)
for module in modules:
    module.optional = True  # said here, for cythonize forgets it

setup(ext_modules=modules, cmdclass={"build_py": BuildPy, "sdist": SourceDistribution})
