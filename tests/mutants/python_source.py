"""Mutants of a Python file: found in its syntax tree, written into its text, so that nothing else of it changes.

Annotations, docstrings, imports, what is logged, prose of messages and what runs only for type checkers or as a script
are left alone: they decide nothing that a test could hold.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from tests.mutants import strings
from tests.mutants.mutant import Lines, Mutant, numbered

# An ordering has two: the other side of the boundary, and the opposite.
COMPARISONS: Final = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
ARITHMETIC: Final = {
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "//": "*",
    "%": "//",
    "**": "*",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
    "^": "&",
}
CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What surrounds an operator between its operands.
_GAP: Final = rb"(?:[\s()\\]|#[^\n]*)*"
_COMPARISON: Final = re.compile(_GAP + rb"(is\s+not\b|not\s+in\b|is\b|in\b|[<>=!]=|[<>])")
_ARITHMETIC: Final = re.compile(_GAP + rb"(\*\*|//|<<|>>|[-+*/%&|^])")
_BOOLEAN: Final = re.compile(_GAP + rb"(and|or)\b")
_NOT: Final = re.compile(rb"not\s*")
_LOGS: Final = frozenset({"log", "_log", "logger", "logging"})
_TYPING: Final = frozenset({"TypeVar", "NewType", "ParamSpec", "cast", "NamedTuple", "TypedDict"})
# Keywords of classes and decorators that no test can see, or that types hold.
_SHAPE: Final = frozenset({"frozen", "slots", "gc", "eq", "weakref", "cache_hash", "repr"})


def mutants(path: str, source: bytes) -> list[Mutant]:
    """All of them, in the order of the file."""
    reader = _Reader(path, source)
    reader.visit(ast.parse(source))
    return numbered(reader.found)


def holds(source: bytes, mutated: bytes) -> bool:
    """Whether the mutant is Python, and other Python than before."""
    try:
        tree = ast.parse(mutated)
        compile(mutated, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return ast.dump(tree) != ast.dump(ast.parse(source))


class _Reader(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path, self._source, self._lines = path, source, Lines(source)
        self._scope: list[str] = []

    def _add(self, operator: str, start: int, end: int, text: str) -> None:
        """What stands at these bytes becomes `text`."""
        line = self._source.count(b"\n", 0, start) + 1
        column = start - self._lines.offset(line, 0) + 1
        scope, shown = ".".join(self._scope), self._lines.text(line)
        self.found.append(Mutant(self._path, line, column, operator, start, end, text, scope, shown))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        start = self._lines.offset(node.lineno, node.col_offset)
        return start, self._lines.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _visit_all(self, nodes: Sequence[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # What is passed over.

    def visit_Import(self, node: ast.Import) -> None:
        """Decides nothing."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Likewise."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value, not the annotation."""
        if "TypeAlias" not in ast.unparse(node.annotation):
            self._visit_all([node.value])

    def visit_arg(self, node: ast.arg) -> None:
        """An annotation, at most."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Decorators, defaults and body, not what it returns."""
        self._visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults])
        self._body(node.name, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name is that of ast

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Decorators, bases and body."""
        self._visit_all([*node.decorator_list, *node.keywords])
        self._body(node.name, node.body)

    def _body(self, name: str, body: Sequence[ast.stmt]) -> None:
        self._scope.append(name)
        self._visit_all(body)
        self._scope.pop()

    def visit_keyword(self, node: ast.keyword) -> None:
        """The value, unless it only shapes a class."""
        if node.arg not in _SHAPE:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Not what stands in brackets of a type."""
        if ast.unparse(node.value).rpartition(".")[2] not in {"Literal", "Annotated", "Final"}:
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """An f-string is one text: Python 3.11 does not say where its parts stand."""
        self._string(node)

    # Expressions.

    def visit_Call(self, node: ast.Call) -> None:
        """Not what is logged, nor what names a type."""
        if _is_logging(node) or ast.unparse(node.func).rpartition(".")[2] in _TYPING:
            return
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            self._add(f"call:{CALLS[node.func.id]}", *self._span(node.func), CALLS[node.func.id])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Each operator of a chain."""
        left = node.left
        for right in node.comparators:
            for start, end, operator in self._between(left, right, _COMPARISON):
                for other in COMPARISONS[" ".join(operator.split())]:
                    self._add(f"compare:{other.replace(' ', '-')}", start, end, other)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Each `and` and `or`."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            for start, end, operator in self._between(left, right, _BOOLEAN):
                other = {"and": "or", "or": "and"}[operator]
                self._add(f"boolean:{other}", start, end, other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """A `not` goes; a sign is its number's affair."""
        start, _ = self._span(node)
        if isinstance(node.op, ast.Not) and (at := _NOT.match(self._source, start)):
            self._add("not", start, at.end(), "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Arithmetic, but not on texts, where every test would see it."""
        if not _is_text(node.left) and not _is_text(node.right):
            for start, end, operator in self._between(node.left, node.right, _ARITHMETIC):
                self._add(f"arithmetic:{ARITHMETIC[operator]}", start, end, ARITHMETIC[operator])
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Its condition, the other way round."""
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Its conditions, the other way round."""
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A number beside it, the other truth, a name that is not."""
        if isinstance(node.value, bool):
            self._add(f"constant:{not node.value}", *self._span(node), str(not node.value))
        elif isinstance(node.value, (int, float)):
            for step in (1, -1):
                value = node.value + step
                self._add(f"number:{step:+}", *self._span(node), f"({value})" if value < 0 else str(value))
        elif isinstance(node.value, (str, bytes)):
            self._string(node)

    def _between(self, left: ast.expr, right: ast.expr, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, int, str]]:
        """Where the operator of two operands stands, and what it is."""
        _, start = self._span(left)
        end, _ = self._span(right)
        if at := pattern.match(self._source, start, end):
            yield *at.span(1), at[1].decode()

    def _condition(self, test: ast.expr) -> None:
        """The opposite, where no operator of its own has it."""
        if not isinstance(test, (ast.Compare, ast.BoolOp, ast.Constant)) and not _is_not(test):
            self._add("condition", *self._span(test), f"not ({self._text(test)})")

    def _string(self, node: ast.Constant | ast.JoinedStr) -> None:
        start, _ = self._span(node)
        for operator, at, end, text in strings.changes(self._text(node)):
            self._add(operator, start + at, start + end, text)

    # Statements.

    def _remove(self, node: ast.stmt) -> None:
        self._add("remove", *self._span(node), "pass")

    def visit_If(self, node: ast.If) -> None:
        """Its condition, unless it is not asked at run time."""
        asked = ast.unparse(node.test)
        if asked.endswith("TYPE_CHECKING") or asked.startswith("__name__ =="):
            self._visit_all(node.orelse)
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Its condition, the other way round."""
        self._condition(node.test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call whose result nobody takes goes. A text alone is a docstring."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and _is_logging(call)):
            return
        if isinstance(call, ast.Call):
            self._remove(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """What sets something of an object goes. Without a name, or what `__init__` sets, nothing would run at all."""
        if any(ast.unparse(target).startswith("__") for target in node.targets):
            return
        begins = self._scope[-1:] == ["__init__"]
        if not begins and all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self._remove(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """It goes, or does the opposite."""
        self._remove(node)
        if not _is_text(node.value):
            for start, end, operator in self._between(node.target, node.value, _ARITHMETIC):
                self._add(f"arithmetic:{ARITHMETIC[operator]}=", start, end, ARITHMETIC[operator])
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The refusal goes."""
        self._remove(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """What was to go stays."""
        self._remove(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Nothing is returned."""
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._add("return:None", *self._span(node.value), "None")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        """It goes on."""
        self._add("loop:continue", *self._span(node), "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        """It ends."""
        self._add("loop:break", *self._span(node), "break")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Catches nothing."""
        if node.type is not None:
            self._add("except:nothing", *self._span(node.type), "()")
        self._visit_all(node.body)


def _is_logging(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    return ast.unparse(call.func.value).rpartition(".")[2] in _LOGS


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
