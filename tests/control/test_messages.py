"""What a 400 says is said in words of JSON and of this interface: no class of ours, no type of Python, no library."""

import builtins
import random
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import msgspec
import pytest
from pydantic import BaseModel

from sluice.erasure_filters import check_filters
from tests.control.conftest import Control
from tests.control.identity.accounts import join
from tests.control.test_query_parameters import UNLIMITED, Asked, operations, operations_on_acme
from tests.selection import scaled

VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    2**63,
    1.5,
    "",
    "\x00",
    "x" * 5_000,
    "2026-02-30T00:00:00Z",
    [],
    [None],
    [{"x": 1}],
    {},
    {"x": {"y": []}},
)
QUERY: Final = ("", "\x00", "-1", "x" * 600, "2026-02-30T00:00:00Z")
# Words of English, or names of this interface.
WORDS: Final = frozenset(
    ("object", "range", "type", "all", "any", "set", "format", "filter", "id", "hash", "map", "list", "open", "bytes")
)
WORDS_OF_INTERFACE: Final = {"Error", "Scope", "Role", "Kind", "Status", "State", "Stream", "Name", "Email", "Group"}


def names() -> set[str]:
    """Of classes of ours and of Python, and of libraries."""

    def below(kind: type) -> Iterator[str]:
        each: type
        for each in kind.__subclasses__():
            yield each.__name__
            yield from below(each)

    ours = {name for kind in (msgspec.Struct, Enum, BaseModel) for name in below(kind)} - WORDS_OF_INTERFACE
    python = {name for name in dir(builtins) if not name.startswith("_")} - WORDS
    return {name for name in ours | python if len(name) > 2} | {
        *("NoneType", "datetime", "Struct", "UnsetType", "UNSET", "StrEnum", "Literal", "Annotated"),
        *("msgspec", "pydantic", "sqlalchemy", "psycopg", "sqlite", "asyncpg", "lxml", "yarl", "aiohttp", "Traceback"),
    }


def mutations(value: Any) -> Iterator[Any]:
    """The value with each of its parts replaced in turn, and taken out."""
    yield from VALUES
    if isinstance(value, dict):
        for name, part in value.items():
            yield {key: each for key, each in value.items() if key != name}
            for changed in mutations(part):
                yield value | {name: changed}
    elif isinstance(value, list):
        for at, part in enumerate(value[:2]):
            for changed in mutations(part):
                yield [*value[:at], changed, *value[at + 1 :]]


def sample(example: Any) -> list[Any]:
    """Some of the mutations of an example of a body, the same each time; none without an example."""
    every = [] if example is None else list(mutations(example))
    return random.Random(7).sample(every, min(len(every), scaled(3, 300)))


def texts(value: Any) -> Iterator[str]:
    """What a response says."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in ("code", "requestId", "path", "schemas"):
                yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


@pytest.fixture
def service_parts() -> dict[str, Any]:
    """With the check of filters that explore has, as in one process."""
    return {"check_filters": check_filters}


async def said(control: Control, asked: Asked, body: Any, query: dict[str, str], token: str) -> set[str]:
    """The messages of a 4xx to this request; nothing may be a 5xx."""
    status, answer, _ = await control.call(asked.method, asked.path, body, token, params=query)
    assert status < 500, (asked, body, query)
    return set(texts(answer)) if status >= 400 else set()


def check(messages: set[str]) -> None:
    assert messages
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(names())))
    assert {text: found[0] for text in messages if (found := pattern.search(text))} == {}


@UNLIMITED
@pytest.mark.sized
async def test_messages_name_no_type_of_ours(control: Control) -> None:
    session = (await join(control, control.acme)).access
    messages: set[str] = set()
    for asked in await operations_on_acme(control):
        token = session if asked.path.startswith("/auth/") else control.acme.token.secret
        # The query is wrong, too, so that nothing is changed: all that is wrong is in one response.
        for body in sample(asked.example):
            messages |= await said(control, asked, body, {"nonsense": "1"}, token)
        for text in QUERY if asked.declared else ():
            query = dict.fromkeys(asked.declared, text)
            messages |= await said(control, asked, None, query | {"nonsense": "1"}, token)
    for asked in await operations(control):
        if "bearerAuth" not in asked.security and asked.path.startswith(("/auth/", "/sso/handoff")):
            for body in sample(asked.example):
                messages |= await said(control, asked, body, {}, "")
    check(messages)
