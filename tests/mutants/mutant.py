"""A mutant: one place of one file, what stands there instead, and how it is found again."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple


class Identity(NamedTuple):
    """What a mutant keeps when the lines above it change: by this it is found in another revision."""

    path: str
    function: str  # the enclosing one, with its classes; empty at the top of a module
    source: str  # the line, without its indentation
    operator: str
    repeat: int  # 0 for the first of those that have all the rest in common, in the order of the file


@dataclass(frozen=True)
class Mutant:
    """The bytes `start` to `end` of the file at `path` become `text`."""

    path: str  # from the root of the tree, with slashes
    line: int  # from 1
    column: int  # from 1, in bytes
    operator: str
    start: int
    end: int
    text: str
    function: str
    source: str
    repeat: int = 0

    @property
    def name(self) -> str:
        """As `--only` takes it."""
        return f"{self.path}:{self.line}:{self.column} {self.operator}"

    @property
    def identity(self) -> Identity:
        """As a report has it."""
        return Identity(self.path, self.function, self.source, self.operator, self.repeat)

    @property
    def kind(self) -> str:
        """The operator without what it puts in place."""
        return self.operator.partition(":")[0]

    def apply(self, source: bytes) -> bytes:
        """The file with the mutant in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """The lines that it changes, as they were and as they are."""
        begin, end = source.rfind(b"\n", 0, self.start) + 1, source.find(b"\n", self.end)
        end = len(source) if end < 0 else end
        before, after = source[begin:end], source[begin : self.start] + self.text.encode() + source[self.end : end]
        return f"{' '.join(before.decode().split())}  ->  {' '.join(after.decode().split())}"


class Lines:
    """Where the lines of a file begin, in bytes, and what they say."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """The byte at `line`, from 1, and `column`, from 0."""
        return self._starts[line - 1] + column

    def text(self, line: int) -> str:
        """The line without what surrounds it."""
        return self.source[self._starts[line - 1] : self._starts[line]].decode().strip()


def numbered(mutants: Iterable[Mutant]) -> list[Mutant]:
    """In the order of the file, those that have all in common told apart by their number."""
    seen = Counter[Identity]()
    found = []
    for mutant in sorted(mutants, key=lambda each: (each.start, each.end, each.operator)):
        found.append(replace(mutant, repeat=seen[mutant.identity]))
        seen[mutant.identity] += 1
    return found


def lot(seed: int, *parts: object) -> bytes:
    """What decides who is drawn: for the same seed each has its own, whatever changes elsewhere."""
    return hashlib.sha256(repr((seed, *parts)).encode()).digest()
