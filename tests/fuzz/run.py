"""Starts fuzz processes: what they run with, where they keep inputs, and what is said at the end."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.fuzz.build import BUILD, ROOT, build, hook
from tests.fuzz.targets import TARGETS, Target

FOLDER: Final = Path(__file__).parent
CORPUS: Final = FOLDER / "corpus"  # committed, small
GROWN: Final = BUILD / "corpus"  # of this machine, as large as it gets
FINDINGS: Final = BUILD / "findings"
COMMITTED_BYTES: Final = 700  # what an input of the committed corpus has at most
FOUND: Final = "found-"  # what the names of inputs begin with that stay for what they found
RSS_LIMIT_MB: Final = 4096
_DONE: Final = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/(\w+)")


def fuzz(name: str, seconds: int, extra: list[str]) -> int:
    """Fuzzes for so long; the exit code, which is not 0 when there is a finding."""
    target = TARGETS[name]
    grown, findings = GROWN / target.corpus, FINDINGS / name
    grown.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={target.max_len}",
        f"-timeout={target.timeout_s}",
        f"-rss_limit_mb={RSS_LIMIT_MB}",
        f"-artifact_prefix={findings}/",
        *("-print_funcs=0", "-print_final_stats=0", "-verbosity=1"),
    ]
    dictionary = FOLDER / "dictionaries" / f"{target.corpus}.dict"
    if dictionary.exists():
        options.append(f"-dict={dictionary}")
    log = BUILD / f"{name}.log"
    with log.open("wb") as output:
        code = _start(name, [*options, *extra, str(grown), *_committed(target)], output).wait()
    _report(name, code, log, findings)
    return code


def replay(name: str, paths: list[str]) -> int:
    """Runs inputs once, as the fuzzer would."""
    return _start(name, ["-rss_limit_mb=0", *paths], None).wait()


def minimise(name: str) -> int:
    """Makes the committed corpus anew: few short inputs that reach what all short ones together reach, and findings."""
    target = TARGETS[name]
    committed, made, short = (root / target.corpus for root in (CORPUS, BUILD / "minimised", BUILD / "short"))
    for folder in (made, short):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    committed.mkdir(parents=True, exist_ok=True)
    for path in [*committed.iterdir(), *(GROWN / target.corpus).iterdir()]:
        if path.stat().st_size <= COMMITTED_BYTES:
            shutil.copy(path, short)
    code = _start(name, ["-merge=1", "-rss_limit_mb=0", str(made), str(short)], None).wait()
    if code == 0:
        for path in committed.iterdir():
            if not path.name.startswith(FOUND):
                path.unlink()
        shutil.copytree(made, committed, dirs_exist_ok=True)
    return code


def _committed(target: Target) -> list[str]:
    folder = CORPUS / target.corpus
    return [str(folder)] if folder.is_dir() else []


def _start(name: str, arguments: list[str], output: Any) -> subprocess.Popen[bytes]:
    """A fuzz process; built and equipped with sanitizers where the target wants them."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    if TARGETS[name].sanitized:
        build()
        environment |= _sanitized()
    command = [str(_launcher(name)), *arguments]
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)


def _launcher(name: str) -> Path:
    """A command of one word: libFuzzer starts itself again by it when it minimises."""
    path = BUILD / f"fuzz-{name}"
    BUILD.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tests.fuzz.child {name} "$0" "$@"\n')
    path.chmod(0o755)
    return path


def _sanitized() -> dict[str, str]:
    atheris: Any = importlib.import_module("atheris")
    runtime = Path(atheris.path()) / "asan_with_fuzzer.so"
    return {
        "LD_PRELOAD": f"{runtime} {hook()}",
        # The interpreter keeps memory to its end, which is no leak; a failed allocation is an error to handle.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_malloc_fill_size=65536:quarantine_size_mb=64",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # or small objects would lie in one block, of which no overrun is seen
        "FUZZ_KERNELS": str(BUILD),
        "FUZZ_HOOK": str(hook()),
    }


def _report(name: str, code: int, log: Path, findings: Path) -> None:
    text = log.read_text(errors="replace")
    done = _DONE.search(text)
    if code == 0 and done:
        runs, edges, features, inputs, size = done.groups()
        print(f"{name}: {runs} runs, {edges} edges, {features} features, {inputs} inputs ({size}); nothing found")
        return
    print(text[-6000:])
    print(f"{name}: FOUND something (exit code {code}); whole output in {log}, inputs in {findings}.")
    print(f"Again: python -m tests.fuzz {name} --replay FILE")
