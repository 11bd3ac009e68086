"""The lint reads prose and no code, and finds each habit with its line."""

from pathlib import Path
from typing import Any

import pytest

from tests.prose.__main__ import find, main, make_rule, read_rules
from tests.prose.texts import Text, of_markdown, of_python

RULES = read_rules()


def found_in(prose: str) -> list[tuple[str, int]]:
    return [(place.rule.name, place.line) for place in find([Text("x.md", 1, prose)], RULES)]


@pytest.mark.parametrize(
    ("prose", "found"),
    [
        ("The scopes are that\nof the session.", [("that of", 2)]),
        ("Rows. What has left stays where it is.", [("free relative", 1)]),
        ("Rows.\n\n- What has left stays.", [("free relative", 3)]),
        ("What has left?", []),
        ("It says what has left.", []),
        ("Exported is only the newest row.", [("verb first", 1)]),
        ("Whoever asks is refused.", [("whoever", 1)]),
        ("It tells nobody.", [("nobody", 1)]),
        ("It begins anew, and goes on.", [("own words", 1), ("own words", 1)]),
        ("Retry while it is away.", [("away", 1)]),
        ("The name, else the id.", [("else", 1)]),
        ("Nothing else is read.", []),
        ("Sluice exports only the newest row, for example after an erasure.", []),
    ],
)
def test_habits_are_found(prose: str, found: list[tuple[str, int]]) -> None:
    assert found_in(prose) == found


def test_code_of_a_page_is_no_prose(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A\n`that of` [b](whoever.md) c.\n\n```sh\nnobody\n```\n\n    anew\n\nThat\nof\n")
    text = of_markdown(page)
    assert text.prose.count("\n") == page.read_text().count("\n")
    assert [(place.rule.name, place.line) for place in find([text], RULES)] == [("that of", 11)]


def test_texts_of_a_module(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    docstring = '"""The first line.\n\nThe second is that of `x`.\n"""\n\n'
    module.write_text(docstring + 'NAME = "that of"\nRAISED = f"The name {NAME} is that of nobody."\n')
    texts = list(of_python(module))
    assert [text.line for text in texts] == [1, 7]
    places = [(place.rule.name, place.line) for place in find(texts, RULES)]
    assert places == [("that of", 3), ("that of", 7), ("nobody", 7)]


def test_an_exception_needs_a_reason_and_hides_its_sentence_alone() -> None:
    given: dict[str, Any] = {"name": "nobody", "pattern": r"\bnobody\b", "instead": "the role"}
    with pytest.raises(KeyError, match="reason"):
        make_rule(**given, exception=[{"text": "user nobody"}])
    rule = make_rule(**given, exception=[{"text": "user nobody", "reason": "it is the name of a user"}])
    page = Text("x.md", 1, "It runs as the user\nnobody. It tells nobody\nelse.\nNobody knows.")
    assert [place.line for place in find([page], [rule])] == [2, 4]


def test_few_sentences_are_exceptions() -> None:
    assert sum(len(rule.exceptions) for rule in RULES) < 30


def test_the_pages_and_texts_of_the_project_have_no_habit() -> None:
    assert main([]) == 0
