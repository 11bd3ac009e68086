"""Which tests a mutant is run against: the test files of the nearest folder under tests/ that mirrors the module's own.

What has the module's name in its own comes first, then what has that of the module's folder: a mutant that is caught
is mostly caught soon. Folders below that one belong to other modules.
"""

from pathlib import Path, PurePosixPath


def folder_of(root: Path, path: str) -> str:
    """The folder, from the root of the tree. Raises LookupError."""
    for parent in PurePosixPath(path).parents:
        mirrored = PurePosixPath("tests") / parent
        if parent.name and any((root / mirrored).glob("test_*.py")):
            return mirrored.as_posix()
    raise LookupError(f"{path}: no folder of tests mirrors it")


def tests_in(root: Path, folder: str) -> list[str]:
    """Its own test files, by name."""
    return [f"{folder}/{path.name}" for path in sorted((root / folder).glob("test_*.py"))]


def tests_of(root: Path, path: str) -> list[str]:
    """Those of the module's folder, the likely ones first."""
    module, package = PurePosixPath(path).stem.strip("_"), PurePosixPath(path).parent.name

    def rank(test: str) -> int:
        name = PurePosixPath(test).stem.removeprefix("test_")
        return 0 if name == module else 1 if module in name else 2 if package in name else 3

    return sorted(tests_in(root, folder_of(root, path)), key=rank)
