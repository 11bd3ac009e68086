"""What a seed draws, how a mutant is found again, and which tests it is run against."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import drawing, folders
from tests.mutants.mutant import Mutant

FUNCTION = "def f_{0}(a, b):\n    if a < b:\n        a.b(b)\n    return a + {0}\n\n\n"
KERNEL = "cdef f_{0}(a, b):\n    if a < b:\n        return a + {0}\n\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Packages of two to seven functions, and a kernel."""
    for number, package in enumerate(drawing.PACKAGES, 2):
        folder = tmp_path / package
        folder.mkdir()
        (folder / "code.py").write_text("".join(FUNCTION.format(place) for place in range(number)))
    (tmp_path / drawing.KERNEL).mkdir(parents=True)
    (tmp_path / drawing.KERNEL / "kernel.pxi").write_text("".join(KERNEL.format(place) for place in range(9)))
    return tmp_path


def names(drawn: list[tuple[Mutant, ...]]) -> list[str]:
    return [each.name for mutants in drawn for each in mutants]


def test_a_seed_draws_the_same_again_and_another_one_others(tree: Path) -> None:
    assert names(drawing.draw(tree, 20, 1)) == names(drawing.draw(tree, 20, 1))
    assert names(drawing.draw(tree, 20, 1)) != names(drawing.draw(tree, 20, 2))


def test_a_line_is_drawn_once_and_every_function_before_any_twice(tree: Path) -> None:
    drawn = [mutants[0] for mutants in drawing.draw(tree, 30, 1)]
    assert len({(each.path, each.line) for each in drawn}) == len(drawn) == 30
    of_a_function = Counter((each.path, each.function) for each in drawn if each.path == "proto/code.py")
    assert set(of_a_function.values()) == {1}


def test_an_edit_elsewhere_leaves_what_is_drawn(tree: Path) -> None:
    before = [mutants[0] for mutants in drawing.draw(tree, 20, 1)]
    path = tree / "sluice" / "code.py"
    path.write_text("import a\n\n\n" + path.read_text())
    after = [mutants[0] for mutants in drawing.draw(tree, 20, 1)]
    assert [each.identity for each in after] == [each.identity for each in before]
    assert names([tuple(after)]) != names([tuple(before)])


def test_a_kernel_that_does_not_compile_has_spares_that_nobody_else_has(tree: Path) -> None:
    slots = [mutants for mutants in drawing.draw(tree, 20, 1) if mutants[0].path.startswith(drawing.KERNEL)]
    assert len(slots) == 2
    assert all(len(mutants) > 1 for mutants in slots)
    assert not set(names(slots[:1])) & set(names(slots[1:]))


def test_shares_go_by_size_and_leave_no_package_out() -> None:
    sizes = {"kernel": 500, "small": 10, "middle": 300, "large": 690}
    assert drawing.quotas(sizes, 60) == {"kernel": 6, "small": 3, "middle": 16, "large": 35}
    assert drawing.quotas(sizes, 3) == {"kernel": 0, "small": 1, "middle": 1, "large": 1}
    assert all(sum(drawing.quotas(sizes, count).values()) == count for count in range(100))


def test_a_mutant_is_found_by_its_name_and_by_what_it_is(tree: Path) -> None:
    mutant = drawing.draw(tree, 20, 1)[0][0]
    assert drawing.find(tree, mutant.name) == mutant
    path = tree / mutant.path
    path.write_text("# Another line.\n" + path.read_text())
    with pytest.raises(LookupError, match="no such mutant"):
        drawing.find(tree, mutant.name)
    again = drawing.find_again(tree, mutant.identity)
    assert again is not None
    assert (again.line, again.identity) == (mutant.line + 1, mutant.identity)
    path.write_text("")
    assert drawing.find_again(tree, mutant.identity) is None


def test_a_module_has_the_tests_of_the_nearest_folder_that_mirrors_its_own(tmp_path: Path) -> None:
    for name in ("a/test_other.py", "a/test_votes_late.py", "a/test_votes.py", "a/rig.py", "a/b/test_b.py", "c/rig.py"):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert folders.tests_of(tmp_path, "a/votes.py") == [
        "tests/a/test_votes.py",
        "tests/a/test_votes_late.py",
        "tests/a/test_other.py",
    ]
    assert folders.tests_of(tmp_path, "a/other/deep.py")[0] == "tests/a/test_other.py"
    assert folders.tests_of(tmp_path, "a/b/x.py") == ["tests/a/b/test_b.py"]
    with pytest.raises(LookupError):
        folders.folder_of(tmp_path, "c/x.py")
