"""Copies of the tree to put mutants in: the tree itself is never touched.

A copy has an interpreter of its own, for tests start processes in other directories, and what is installed here would
give these the product without the mutant.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Final

from tests.mutants.drawing import KERNEL
from tests.mutants.mutant import Mutant

# What of a revision are its tests, and how they are run.
TESTS: Final = ("tests", "conftest.py", "pyproject.toml")
BUILD_S: Final = 900.0  # for the kernel; it takes a minute or two


class TreeError(Exception):
    """There is no tree to run in; the message says why."""


class Tree:
    """One copy. `temporary` is for the processes that run in it: theirs alone, and they are known by it."""

    def __init__(self, root: Path, pristine: Path) -> None:
        self.root = root
        self.temporary = root.parent / f"{root.name}.tmp"
        self.python = root / ".venv" / "bin" / "python"
        self._pristine = pristine

    def put(self, mutant: Mutant) -> bool:
        """Put it in; whether the kernel, if it is one of the kernel's, compiles with it."""
        path = self.root / mutant.path
        path.write_bytes(mutant.apply(path.read_bytes()))
        return not mutant.path.startswith(f"{KERNEL}/") or path.suffix == ".py" or self._build()

    def restore(self, mutant: Mutant) -> None:
        """Take it out. Times are as before, so that what Python has compiled of the file holds again."""
        changed = [mutant.path]
        if mutant.path.startswith(f"{KERNEL}/"):
            for path in _built(self.root):
                path.unlink()
            changed += [path.relative_to(self._pristine).as_posix() for path in _built(self._pristine)]
        for name in changed:
            shutil.copy2(self._pristine / name, self.root / name)

    def _build(self) -> bool:
        for path in _built(self.root):
            path.unlink()
        command = [str(self.python), "setup.py", "--quiet", "build_ext", "--inplace", "--force"]
        try:
            done = subprocess.run(command, cwd=self.root, capture_output=True, check=False, timeout=BUILD_S)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and any(path.suffix == ".so" for path in _built(self.root))


def copy_tree(source: Path, target: Path) -> Path:
    """What git knows of the tree, with what is not committed, and the built kernel. Raises TreeError."""
    listed = _git(source, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode()
    names = [name for name in listed.split("\0") if name and (source / name).is_file()]
    for path in (*(source / name for name in names), *_built(source)):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copied)
    _compile(target)
    return target


def copy_revision(source: Path, revision: str, target: Path) -> Path:
    """The tree of a revision. The kernel is built, which takes a minute. Raises TreeError."""
    target.mkdir(parents=True)
    _extract(source, revision, target, ())
    _install(target)
    command = [str(target / ".venv" / "bin" / "python"), "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise TreeError(f"The kernel of {revision} does not build: {done.stderr.strip()[-500:]}")
    shutil.rmtree(target / ".venv")
    _compile(target)
    return target


def copy_with_tests(source: Path, revision: str, pristine: Path, target: Path) -> Path:
    """The product of `pristine` with the tests of a revision. Raises TreeError."""
    shutil.copytree(pristine, target, symlinks=True)
    for name in TESTS:
        path = target / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    _extract(source, revision, target, TESTS)
    _compile(target)
    return target


def renamed_since(source: Path, revision: str) -> dict[str, str]:
    """The names that files had at the revision, by the names that they have now: all that git takes for renames in the
    commits since. Raises TreeError.
    """
    command = ("log", "--reverse", "--topo-order", "-M", "--diff-filter=R", "--name-status", "-z", "--format=")
    listed = _git(source, *command, f"{revision}..HEAD").decode().strip("\0\n").split("\0")
    before = dict[str, str]()
    for old, new in zip(listed[1::3], listed[2::3], strict=True):
        before[new] = before.pop(old, old)
    return before


def copy_for(pristine: Path, target: Path) -> Tree:
    """A copy to run in, of one that stays as it is."""
    shutil.copytree(pristine, target, symlinks=True)
    _install(target)
    return Tree(target, pristine)


def _built(root: Path) -> list[Path]:
    return [path for path in (root / KERNEL).iterdir() if path.suffix in {".so", ".cpp"}]


def _extract(source: Path, revision: str, target: Path, names: tuple[str, ...]) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git(source, "archive", revision, *names))) as archive:
        archive.extractall(target, filter="data")


def _git(source: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=source, capture_output=True, check=False)
    if done.returncode:
        raise TreeError(f"git {arguments[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def _install(root: Path) -> None:
    """An interpreter that finds the copy before anything else, and what is installed here after it."""
    venv.create(root / ".venv", symlinks=True, with_pip=False)
    (packages,) = (root / ".venv" / "lib").glob("python*/site-packages")
    installed = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    (packages / "copy.pth").write_text("".join(f"{entry}\n" for entry in (root, *installed)), encoding="utf-8")


def _compile(root: Path) -> None:
    """Once, for all copies; runs with a mutant write nothing of the kind."""
    folders = [path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")]
    command = [sys.executable, "-m", "compileall", "-q", *folders]
    subprocess.run(command, cwd=root, capture_output=True, check=False)
