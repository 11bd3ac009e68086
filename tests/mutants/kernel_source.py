"""Mutants of the decoder kernel. No library gives Cython's syntax tree with places, so they are found line by line: in
bodies of functions, outside of comments and texts, operators that stand between spaces as the house writes them.
"""

import re
from collections.abc import Iterator
from typing import Final

from tests.mutants.mutant import Lines, Mutant, numbered

_HEADER: Final = re.compile(r"(?:cdef|cpdef|def)\b[^=]*?(\w+)\(.*")
_CLASS: Final = re.compile(r"(?:cdef )?(?:class|struct|cppclass|enum|extern|union)\b|(?:cdef )?extern\b")
# Comments and texts: what is blanked out before anything is looked for.
_PASSIVE: Final = re.compile(r'"""(?:.|\n)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*')
# What is looked for, what it becomes, how the mutant is called.
_CHANGES: Final = (
    (r"(?<= )<(?= )", "<=", "compare:<="),
    (r"(?<= )<=(?= )", "<", "compare:<"),
    (r"(?<= )>(?= )", ">=", "compare:>="),
    (r"(?<= )>=(?= )", ">", "compare:>"),
    (r"(?<= )==(?= )", "!=", "compare:!="),
    (r"(?<= )!=(?= )", "==", "compare:=="),
    (r"(?<= )and(?= )", "or", "boolean:or"),
    (r"(?<= )or(?= )", "and", "boolean:and"),
    (r"\bnot (?!in\b)", "", "not"),
    (r"(?<= )\+(?= )", "-", "arithmetic:-"),
    (r"(?<= )-(?= )", "+", "arithmetic:+"),
    (r"(?<= )\*(?= )", "+", "arithmetic:+"),
    (r"(?<= )<<(?= )", ">>", "arithmetic:>>"),
    (r"(?<= )>>(?= )", "<<", "arithmetic:<<"),
    (r"(?<= )&(?= )", "|", "arithmetic:|"),
    (r"(?<= )\|(?= )", "&", "arithmetic:&"),
    (r"(?<= )\+=(?= )", "-=", "arithmetic:-="),
    (r"(?<= )-=(?= )", "+=", "arithmetic:+="),
    (r"\bTrue\b", "False", "constant:False"),
    (r"\bFalse\b", "True", "constant:True"),
    (r"\bbreak$", "continue", "loop:continue"),
    (r"\bcontinue$", "break", "loop:break"),
)
_NUMBER: Final = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+)(?![\w.])")
# A line that is one whole call or assignment to a place of something.
_STATEMENT: Final = re.compile(r"(?:\w[\w.&]*\(.*\)|\w[\w.\[\]]*[.\]]\w* [-+|&]?= [^()\[\]]+|raise .+)")


def mutants(path: str, source: bytes) -> list[Mutant]:
    """All of them, in the order of the file. Whether each compiles is for the compiler to say."""
    lines = Lines(source)
    found = []
    for number, function, text in _bodies(_PASSIVE.sub(_blank, source.decode())):
        for operator, start, end, other in _of_line(text):
            at, to = (lines.offset(number, len(text[:place].encode())) for place in (start, end))
            shown = lines.text(number)
            found.append(
                Mutant(path, number, at - lines.offset(number, 0) + 1, operator, at, to, other, function, shown)
            )
    return numbered(found)


def _blank(match: re.Match[str]) -> str:
    """As many bytes of nothing; lines stay lines. A letter stands for a text, so that calls keep their arguments."""
    fill = " " if match[0].startswith("#") else "_"
    return "".join("\n" if each == "\n" else fill * len(each.encode()) for each in match[0])


def _bodies(source: str) -> Iterator[tuple[int, str, str]]:
    """(number, enclosing function, text) of the lines that run."""
    function, indent, depth = "", 0, 0
    for number, text in enumerate(source.splitlines(), 1):
        stripped = text.strip()
        inside, depth = depth > 0, depth + _opened(text)
        if not stripped or inside:
            continue
        if function and len(text) - len(text.lstrip()) <= indent:
            function = ""
        if header := _HEADER.match(stripped):
            has_body = depth > 0 or stripped.endswith(":")  # it may go on in the next lines
            function, indent = (header[1], len(text) - len(text.lstrip())) if has_body else ("", 0)
        elif function and depth == 0 and not _CLASS.match(stripped):
            yield number, function, text


def _opened(text: str) -> int:
    """How many brackets stay open."""
    return sum((each in "([{") - (each in ")]}") for each in text)


def _of_line(text: str) -> Iterator[tuple[str, int, int, str]]:
    """(operator, start, end, what it becomes), in characters of the line."""
    if text.lstrip().startswith("cdef ") and "=" not in text:
        return
    for pattern, other, operator in _CHANGES:
        for at in re.finditer(pattern, text):
            yield operator, *at.span(), other
    for at in _NUMBER.finditer(text):
        for step in (1, -1):
            yield f"number:{step:+}", *at.span(), str(int(at[1], 0) + step)
    if _STATEMENT.fullmatch(text.strip()):
        start = len(text) - len(text.lstrip())
        yield "remove", start, len(text.rstrip()), "pass"
