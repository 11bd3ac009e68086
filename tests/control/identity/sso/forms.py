"""Forms of web pages, as a browser that runs no scripts reads them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Form:
    """Where it is sent, and its fields with their values."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)


def first_form(page: str) -> Form | None:
    """The first form of a page; None without one."""
    reader = _Reader()
    reader.feed(page)
    return reader.forms[0] if reader.forms else None


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given.get("action", "")))
        elif tag == "input" and "name" in given and self.forms:
            self.forms[-1].fields.setdefault(given["name"], given.get("value", ""))
