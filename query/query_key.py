"""A query's identity and its result, as values: two requests with equal keys may share one result."""

from hashlib import sha256
from typing import NamedTuple


class QueryKey(NamedTuple):
    """Equal for two requests whose responses are the same bytes as long as nothing is stored in between.

    `digest` covers all parameters of the query besides the project, with times resolved: a window relative to now is a
    different one every second. `to_ns`: the end of the window; None if there is none, and then the result is not
    cached.
    """

    kind: str
    project_id: int
    digest: bytes
    to_ns: int | None = None

    @classmethod
    def of(cls, kind: str, project_id: int, *parameters: object, to_ns: int | None = None) -> "QueryKey":
        """`parameters`: values whose `repr` shows their complete state, as that of frozen structures does."""
        return cls(kind, project_id, sha256(repr(parameters).encode("utf-8", "surrogatepass")).digest(), to_ns)


class JsonResult(NamedTuple):
    """The JSON of a 200; `truncated` names what was cut short if the body has no field that reports it."""

    body: bytes
    truncated: str = ""
