"""Errors that are one issue, and errors that are several: what fingerprints are held against.

`*.txt` has pairs by runtime, with traces exactly as the runtime prints them; most of them were printed by the programs
in `tests/proto/grouping/programs`. `constructed` has those that are too long, or too much alike, to be written out.

A text has sections:

    ==== same: another build moves every line
    ---- KeyError | 'sku'
    Traceback (most recent call last):
    ...
    ---- KeyError | 'sku'
    Traceback (most recent call last):
    ...

Each `==== same: NAME` or `==== different: NAME` begins a pair of two or more errors, each `---- TYPE | MESSAGE` an
error with its stack trace below. The lines before the first pair are a comment.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent


class Raised(NamedTuple):
    """An error as an SDK sends it."""

    kind: str
    message: str
    stacktrace: str


class Pair(NamedTuple):
    """Errors that have one fingerprint (`same`), or of which each has its own."""

    name: str
    same: bool
    errors: tuple[Raised, ...]


def read_pairs(runtime: str) -> Iterator[Pair]:
    """The pairs of `RUNTIME.txt`."""
    text = (FOLDER / f"{runtime}.txt").read_text(encoding="utf-8")
    for section in f"\n{text}".split("\n==== ")[1:]:
        head, *errors = section.split("\n---- ")
        verdict, _, name = head.partition(": ")
        if verdict not in ("same", "different") or len(errors) < 2:
            raise ValueError(f"{runtime}.txt: {head}: not a pair")
        yield Pair(f"{runtime}: {name}", verdict == "same", tuple(map(_read_error, errors)))


def _read_error(text: str) -> Raised:
    head, _, stacktrace = text.partition("\n")
    kind, _, message = head.partition(" | ")
    return Raised(kind.strip(), message.replace("\\n", "\n"), stacktrace)


def runtimes() -> list[str]:
    """Names of the runtimes that have pairs, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))
