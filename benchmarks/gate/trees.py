"""The two trees: the one that one stands in, as it is, and a revision in a directory of its own, with its kernel."""

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.ports import free_port

HEAD: Final = Path(__file__).parents[2]
_KERNEL: Final = Path("proto/otlp/kernel")
_SOURCES: Final = ("*.pyx", "*.pxi", "*.pxd")
_BUILD_S: Final = 600.0


class TreeError(Exception):
    """There is nothing to measure."""


class Tree(NamedTuple):
    """Where it is, and what it is called."""

    name: str
    directory: Path
    title: str


def grpc_settings(tree: Tree) -> dict[str, str]:
    """Settings with a port of OTLP/gRPC, which is part of what a start costs, for a tree that has such a setting."""
    source = tree.directory / "chassis" / "runtime" / "settings.py"
    return {"SLUICE_GRPC_PORT": str(free_port())} if "grpc_port" in source.read_text() else {}


def default_base() -> str:
    """Where the branch left `main`; on `main` the last commit, or the one before it if nothing has changed since."""
    head = _git("rev-parse", "HEAD")
    fork = _git("merge-base", "HEAD", "main", check=False) or _git("merge-base", "HEAD", "origin/main", check=False)
    if not fork:
        raise TreeError("there is no main to compare with: say BASE=REVISION")
    if fork != head:
        return fork
    return "HEAD" if _changed() else "HEAD~1"


def head_tree() -> Tree:
    """The tree that one stands in. Raises TreeError if its kernel is not built."""
    if not list((HEAD / _KERNEL).glob("_kernel.*.so")):
        raise TreeError("the decoder kernel is not built here: make setup")
    return Tree("head", HEAD, _title("HEAD") + (", and what has changed since" if _changed() else ""))


def base_tree(revision: str, directory: Path) -> Tree:
    """A revision in an empty directory. Raises TreeError."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", check=False)
    if not commit:
        raise TreeError(f"{revision} is no commit of this repository")
    # No `git worktree`: an interrupted run leaves nothing in the repository.
    with tarfile.open(fileobj=io.BytesIO(_run("archive", "--format=tar", commit).stdout)) as tar:
        tar.extractall(directory, filter="data")
    _build(directory)
    return Tree("base", directory, _title(commit))


def check(tree: Tree) -> None:
    """What is started there is of that tree. Raises TreeError."""
    program = "import gateway, proto.otlp.kernel._kernel as kernel; print(gateway.__file__); print(kernel.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tree.directory, capture_output=True, text=True, check=False
    )
    if done.returncode or any(not Path(line).is_relative_to(tree.directory) for line in done.stdout.split()):
        raise TreeError(f"{tree.name} does not start from {tree.directory}: {done.stdout}{done.stderr}")


def _build(directory: Path) -> None:
    """The kernel of a tree: that of head where it is made of the same."""
    if _sources(directory) == _sources(HEAD):
        for built in (HEAD / _KERNEL).glob("_kernel.*.so"):
            shutil.copy2(built, directory / _KERNEL)
        return
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_BUILD_S, check=False
    )
    if done.returncode or not list((directory / _KERNEL).glob("_kernel.*.so")):
        raise TreeError(f"the base's kernel cannot be built:\n{done.stdout.decode()}")


def _sources(directory: Path) -> dict[str, bytes]:
    files = [directory / "setup.py", *(file for each in _SOURCES for file in (directory / _KERNEL).glob(each))]
    return {file.name: file.read_bytes() for file in files}


def _title(revision: str) -> str:
    return _git("log", "-1", "--format=%h %s", revision)


def _changed() -> bool:
    """Whether a file differs from the last commit, or is new."""
    return bool(_git("status", "--porcelain"))


def _git(*arguments: str, check: bool = True) -> str:
    """What it says; "" if it fails and that is no error. Raises TreeError."""
    done = _run(*arguments)
    if check and done.returncode:
        raise TreeError(done.stderr.decode().strip())
    return "" if done.returncode else done.stdout.decode().strip()


def _run(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    git = shutil.which("git")
    if git is None:
        raise TreeError("git is not there")
    return subprocess.run([git, *arguments], cwd=HEAD, capture_output=True, check=False)
