"""What is asked and what is answered, as values: two requests that ask the same may have the same answer."""

from hashlib import sha256
from typing import NamedTuple


class QueryKey(NamedTuple):
    """Equal for two requests whose answers are the same bytes as long as nothing is stored in between.

    `digest` stands for all that was asked of the project, times resolved: a window that moves with the clock is another
    one with every second. `to_ns`: where the window ends; None for what has none, and then no answer is kept.
    """

    kind: str
    project_id: int
    digest: bytes
    to_ns: int | None = None

    @classmethod
    def of(cls, kind: str, project_id: int, *asked: object, to_ns: int | None = None) -> "QueryKey":
        """`asked`: values that show all that they are (`repr`), as frozen structures do."""
        return cls(kind, project_id, sha256(repr(asked).encode("utf-8", "surrogatepass")).digest(), to_ns)


class JsonResult(NamedTuple):
    """The JSON of a 200; `truncated` names what was cut short where the answer has no place to say so."""

    body: bytes
    truncated: str = ""
