"""What counts as a mutant, in Python, in texts and in the kernel, and that nothing but its own bytes change."""

import pytest

from tests.mutants import kernel_source, python_source
from tests.mutants.mutant import Mutant


def shown(source: str) -> list[str]:
    """What every mutant of a Python file is called, and the line that it makes."""
    return [f"{each.line}:{each.column} {each.operator}: {_changed(each, source)}" for each in _python(source)]


def _python(source: str) -> list[Mutant]:
    return python_source.mutants("x.py", source.encode())


def _changed(mutant: Mutant, source: str) -> str:
    return mutant.shown(source.encode()).partition("  ->  ")[2]


@pytest.mark.parametrize(
    ("line", "mutants"),
    [
        ("x = a < b", ["compare:<= x = a <= b", "compare:>= x = a >= b"]),
        ("x = a is not b", ["compare:is x = a is b"]),
        ("x = a not  in b", ["compare:in x = a in b"]),
        ("x = a == b != c", ["compare:!= x = a != b != c", "compare:== x = a == b == c"]),
        ("x = (a) /(b)", ["arithmetic:* x = (a) *(b)"]),
        ("x = a and b or c", ["boolean:or x = a or b or c", "boolean:and x = a and b and c"]),
        ("x = not (a or b)", ["not x = (a or b)", "boolean:and x = not (a and b)"]),
        ("x = a if b else c", ["condition x = a if not (b) else c"]),
        ("x = [a for a in b if c]", ["condition x = [a for a in b if not (c)]"]),
        ("x = True", ["constant:False x = False"]),
        ("x = 0", ["number:+1 x = 1", "number:-1 x = (-1)"]),
        ("x = max(a)", ["call:min x = min(a)"]),
        ("x = 'rate_limited'", ["string:_ x = 'rate_limited_'"]),
        ("x = b'key'", ["string:_ x = b'key_'"]),
        ("x = ''", ["string:_ x = '_'"]),
        ("x = 'SELECT a WHERE b <= c'", ["sql:< x = 'SELECT a WHERE b < c'"]),
        ("x = f'WHERE {a} AND b DESC'", ["sql:OR x = f'WHERE {a} OR b DESC'", "sql:ASC x = f'WHERE {a} AND b ASC'"]),
        ("a.b = c", ["remove pass"]),
        ("a(b)", ["remove pass"]),
        ("raise a", ["remove pass"]),
        ("del a[b]", ["remove pass"]),
        ("a += b", ["remove pass", "arithmetic:-= a -= b"]),
        ("while a: break", ["condition while not (a): break", "loop:continue while a: continue"]),
        ("def f(a=1): return a", ["number:+1 def f(a=2): return a", "number:-1 def f(a=0): return a",
                                  "return:None def f(a=1): return None"]),
        ("def f(*, a=True): ...", ["constant:False def f(*, a=False): ..."]),
    ],
)  # fmt: skip
def test_every_kind_changes_its_own_bytes(line: str, mutants: list[str]) -> None:
    assert [f"{each.operator} {_changed(each, line)}" for each in _python(line)] == mutants


@pytest.mark.parametrize(
    "source",
    [
        '"""A text that says what a module is for: rate_limited."""',
        "from a import b",
        "a: dict[str, Literal['b', 1]]",
        "def f(a: int | None) -> list[int]: ...",
        "def f():\n    '''text'''",
        "log.warning('text', number=1)",
        "self._log.warning('text', number=1)",
        "x = 'Prose of a message, for people.'",
        "x = f'Prose {of}'",
        "x = a + 'A text.'",
        "if TYPE_CHECKING:\n    a.b(1)",
        "if __name__ == '__main__':\n    a.b(1)",
        "T = TypeVar('T', bound='A')",
        "@dataclass(frozen=True, slots=True)\nclass A: ...",
        "class A:\n    def __init__(self, a): self.a = a",
        "__all__ = ['a']",
    ],
)
def test_what_decides_nothing_is_left_alone(source: str) -> None:
    assert shown(source) == []


def test_places_are_right_after_other_alphabets_and_over_lines() -> None:
    source = "x = 'Gruß, Übergröße!'; y = (  # größer\n    a  # < b\n    < b\n)\n"
    assert shown(source) == ["3:5 compare:<=: <= b", "3:5 compare:>=: >= b"]


def test_an_exception_is_caught_no_more() -> None:
    assert shown("try:\n    a\nexcept (B, C) as d:\n    raise\n") == [
        "3:8 except:nothing: except () as d:",
        "4:5 remove: pass",
    ]


def test_a_mutant_that_is_not_python_or_is_the_same_python_is_none() -> None:
    assert python_source.holds(b"x = 1", b"x = 2")
    assert not python_source.holds(b"x = 1", b"x = (1)")
    assert not python_source.holds(b"x = 1", b"x = ")
    assert not python_source.holds(b"for a in b: break", b"continue")


def test_places_that_say_the_same_are_told_apart_and_know_their_function() -> None:
    source = "class A:\n    def f(self):\n        a.b()\n        a.b()\n\na.b()\n"
    assert [(each.function, each.source, each.repeat) for each in _python(source)] == [
        ("A.f", "a.b()", 0),
        ("A.f", "a.b()", 1),
        ("", "a.b()", 0),
    ]


KERNEL = """
cdef enum:
    A = 1

cdef struct B:
    size_t c  # 1 < 2

cdef inline bint f(
    Buf* buf, size_t size = 1
) except -1 nogil:
    "What is < here"
    cdef size_t i
    cdef bytes größe = b"1 < ä"; i = 1
    while i < size and not buf.full:
        put(buf, "a + b")
        buf.size += size
    return <size_t> i >> 2

cdef class C:
    cdef int d

    def e(self):
        return False
"""


def test_the_kernel_is_changed_in_bodies_of_functions_alone() -> None:
    found = kernel_source.mutants("k.pyx", KERNEL.encode())
    assert [
        f"{each.line} {each.function} {each.operator}: {each.shown(KERNEL.encode()).partition('  ->  ')[2]}"
        for each in found
    ] == [
        '13 f number:+1: cdef bytes größe = b"1 < ä"; i = 2',
        '13 f number:-1: cdef bytes größe = b"1 < ä"; i = 0',
        "14 f compare:<=: while i <= size and not buf.full:",
        "14 f boolean:or: while i < size or not buf.full:",
        "14 f not: while i < size and buf.full:",
        "15 f remove: pass",
        "16 f remove: pass",
        "16 f arithmetic:-=: buf.size -= size",
        "17 f arithmetic:<<: return <size_t> i << 2",
        "17 f number:+1: return <size_t> i >> 3",
        "17 f number:-1: return <size_t> i >> 1",
        "23 e constant:True: return True",
    ]
