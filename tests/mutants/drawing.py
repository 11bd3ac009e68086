"""Which mutants a seed draws: from every package, by the amount of its code, and one in ten from the kernel.

A line that does something is drawn at most once, a function once before any is drawn twice. Each line has a lot of its
own, made of the seed and of what it says: an edit elsewhere leaves nearly all of a draw as it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.mutants import kernel_source, python_source
from tests.mutants.mutant import Identity, Mutant, lot

PACKAGES: Final = ("sluice", "gateway", "query", "control", "chassis", "proto")
KERNEL: Final = "proto/otlp/kernel"
LEAST: Final = 2  # of each package, where there are enough for all
SPARES: Final = 8  # for a kernel that a mutant kept from compiling


def files(root: Path, package: str) -> list[Path]:
    """What a package has to mutate; `kernel` stands for its sources in Cython."""
    if package == "kernel":
        return sorted(path for path in (root / KERNEL).iterdir() if path.suffix in {".pyx", ".pxi"})
    return sorted((root / package).rglob("*.py"))


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """All of a file."""
    source, name = path.read_bytes(), path.relative_to(root).as_posix()
    return python_source.mutants(name, source) if path.suffix == ".py" else kernel_source.mutants(name, source)


def draw(root: Path, count: int, seed: int) -> list[tuple[Mutant, ...]]:
    """`count` times what is to be run: the first, or where that does not compile the next."""
    packages = ("kernel", *PACKAGES)
    of_lines = {
        name: _by_line(each for path in files(root, name) for each in mutants_of(root, path)) for name in packages
    }
    shares = quotas({name: len(lines) for name, lines in of_lines.items()}, count)
    drawn: list[tuple[Mutant, ...]] = []
    for name in packages:
        if name == "kernel":
            found = _pick(root, of_lines[name], shares[name] * SPARES, seed)
            drawn += [tuple(found[place :: shares[name]]) for place in range(min(shares[name], len(found)))]
        else:
            drawn += [(each,) for each in _pick(root, of_lines[name], shares[name], seed)]
    return drawn


def quotas(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of each: the kernel a tenth, the others by their size, none without as far as it goes."""
    shares = {"kernel": min((count + 5) // 10, sizes["kernel"])}
    others = {name: size for name, size in sizes.items() if name != "kernel"}
    left = count - shares["kernel"]
    least = min(LEAST, left // len(others))
    spread = left - least * len(others)
    exact = {name: spread * size / sum(others.values()) for name, size in others.items()}
    shares |= {name: least + int(part) for name, part in exact.items()}
    for name in sorted(others, key=lambda each: (int(exact[each]) - exact[each], each))[: count - sum(shares.values())]:
        shares[name] += 1
    return shares


def find(root: Path, name: str) -> Mutant:
    """The mutant of this name. Raises LookupError."""
    path = root / name.partition(":")[0]
    if path.is_file():
        for mutant in mutants_of(root, path):
            if mutant.name == name:
                return mutant
    raise LookupError(f"{name}: there is no such mutant; the file may have changed")


def find_again(root: Path, identity: Identity) -> Mutant | None:
    """The mutant of another revision, wherever its line stands now."""
    path = root / identity.path
    found = mutants_of(root, path) if path.is_file() else []
    return next((mutant for mutant in found if mutant.identity == identity), None)


def _by_line(mutants: Iterable[Mutant]) -> list[list[Mutant]]:
    return [list(group) for _, group in groupby(mutants, key=lambda each: (each.path, each.line))]


def _pick(root: Path, lines: Sequence[Sequence[Mutant]], count: int, seed: int) -> list[Mutant]:
    """One of each of `count` lines, kinds of mutants alike, those of functions that have none yet first."""
    by_lot = sorted(lines, key=lambda line: lot(seed, line[0].path, line[0].function, line[0].source, _place(line)))
    drawn, again, functions = list[Mutant](), list[Mutant](), set[tuple[str, str]]()
    for line in by_lot:
        if len(drawn) == count:
            return drawn
        if (mutant := _one(root, line, seed)) is None:
            continue
        function = (mutant.path, mutant.function)
        (again if function in functions else drawn).append(mutant)
        functions.add(function)
    return (drawn + again)[:count]


def _place(line: Sequence[Mutant]) -> int:
    """Which of the lines of a function that say the same."""
    return line[0].repeat


def _one(root: Path, line: Sequence[Mutant], seed: int) -> Mutant | None:
    """One mutant of a line that is the language's; of the kernel, the compiler says later."""
    for mutant in sorted(
        line, key=lambda each: (lot(seed, each.path, each.source, each.kind), lot(seed, each.identity))
    ):
        if not mutant.path.endswith(".py"):
            return mutant
        source = (root / mutant.path).read_bytes()
        if python_source.holds(source, mutant.apply(source)):
            return mutant
    return None
