"""A client is its key, wherever its head has it: before the parser of HTTP, and after it."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from chassis.auth.project_credential import ANONYMOUS, _parse_cached, client_key, parse_query
from chassis.errors import BadRequest, Unauthorized
from chassis.http.preparse import RequestPreview, client_key_of

KEY, OTHER = "0123456789abcdef" * 2, "f" * 32
LEGACY = f"Legacy legacy_key={KEY}"
ENCODED = "".join(f"%{ord(letter):02X}" for letter in KEY)


def seen(query: str, headers: dict[str, str]) -> RequestPreview:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    found = RequestPreview.parse(f"POST /v1/traces{query} HTTP/1.1\r\n{lines}\r\n".encode("utf-8", "surrogateescape"))
    assert found is not None
    return found


def parsed(query: str, headers: dict[str, str]) -> web.Request:
    return make_mocked_request("POST", f"/v1/traces{query}", headers=headers)


SAME = [
    ("", {"X-Legacy-Auth": LEGACY}),
    ("", {"X-Legacy-Auth": f"{LEGACY}, t=7"}),
    ("", {"X-Legacy-Auth": f"LEGACY  client=sdk/1.2, legacy_key = {KEY} ,version=7"}),
    ("", {"X-Legacy-Auth": f"Legacy \x1fa=legacy_key,\u2003legacy_key\x1c={KEY}\x85,"}),
    ("?a=1", {"X-Legacy-Auth": f"Legacy ,,legacy_key={KEY}", "Authorization": "Basic eDp5"}),
    ("", {"Authorization": f"DSN https://{KEY}@host/42"}),
    ("", {"Authorization": f"dsn  http://{KEY}@another:4318/7"}),
    (f"?legacy_key={KEY}", {"Authorization": "Basic eDp5"}),
    (f"?legacy_key={KEY}", {"Authorization": f"\u2003DSN https://{OTHER}@host/42"}),
    (f"?t=7&legacy_key={KEY}&project_id=7", {}),
    (f"?l%65gacy%5fkey={ENCODED}", {}),
    (f"?%6C%65%67%61%63%79%5F%6B%65%79={ENCODED.lower()}", {}),
    (f"?a=%26legacy_key={OTHER}&legacy_key={KEY}", {}),
    (f"?a=?legacy_key={OTHER}&xlegacy_key={OTHER}&legacy_key={KEY}", {}),
    ("", {"X-Legacy-Auth": f"Legacy a=legacy_key,b= legacy_key,legacy_key={KEY}"}),
    (f"?legacy_key={KEY}&legacy_key={KEY}", {"X-Legacy-Auth": LEGACY, "Authorization": f"DSN http://{KEY}@h/1"}),
]
NONE = [
    ("", {}),
    ("?", {"Authorization": "Basic eDp5"}),
    ("?legacy_key=", {}),
    (f"?legacy_key={KEY}0", {}),
    (f"?legacy_key=+{KEY}", {}),
    (f"?legacy_key={KEY.upper()}", {}),
    (f"?legacy_key={KEY}", {"X-Legacy-Auth": ""}),
    (f"?legacy_key={OTHER}", {"X-Legacy-Auth": LEGACY}),
    ("?l%65gacy_key=", {"X-Legacy-Auth": LEGACY}),
    ("?a=1&legacy_key", {"X-Legacy-Auth": LEGACY}),
    (f"?project_id=&legacy_key={KEY}", {}),
    ("?project%5Fid", {"X-Legacy-Auth": LEGACY}),
    (f"?legacy_key={KEY}&legacy_key={OTHER}", {}),
    (f"?legacy_key={KEY}", {"Authorization": f"DSN https://{OTHER}@host/42"}),
    ("", {"X-Legacy-Auth": LEGACY, "Authorization": f"DSN https://{OTHER}@host/42"}),
    ("", {"X-Legacy-Auth": f"{LEGACY}, legacy_key={OTHER}"}),
    ("", {"X-Legacy-Auth": f"Legacy legacy_key, legacy_key={KEY}"}),
    (f"?legacy_key={KEY}", {"X-Legacy-Auth": "Legacy"}),
    (f"?legacy_key={KEY}", {"Authorization": "DSN nonsense"}),
    ("", {"X-Legacy-Auth": f"legacy_key={KEY}"}),
    ("", {"X-Legacy-Auth": f"Bearer legacy_key={KEY}"}),
    ("", {"X-Legacy-Auth": f"Legacy\tlegacy_key={KEY}"}),
    ("", {"X-Legacy-Auth": f"Legacy legacy_key={KEY} x"}),
]


@pytest.mark.parametrize(("query", "headers"), SAME, ids=map(str, range(len(SAME))))
def test_whatever_else_a_head_says_a_key_is_one_sender(query: str, headers: dict[str, str]) -> None:
    assert (seen(query, headers).client_key, client_key_of(parsed(query, headers))) == (KEY.encode(),) * 2


@pytest.mark.parametrize(("query", "headers"), NONE, ids=map(str, range(len(NONE))))
def test_who_cannot_be_let_in_is_one_sender(query: str, headers: dict[str, str]) -> None:
    assert (seen(query, headers).client_key, client_key_of(parsed(query, headers))) == (ANONYMOUS,) * 2


@pytest.mark.parametrize(
    ("query", "named"),
    [
        (f"?legacy_key={KEY}&project_id=7", True),
        (f"?project%5fid=&legacy_key={KEY}", True),
        ("?project_id", True),
        (f"?legacy_key={KEY}&t=project_id&project_ids=7", False),
        ("", False),
    ],
)
def test_a_head_may_name_a_project(query: str, named: bool) -> None:
    assert seen(query, {}).has_project_id == named


def test_parameters_are_bounded_in_length_and_number() -> None:
    for query in ("legacy_key=" + "%" * 60_000, "project_id=" + "%f0%9f%98%80" * 65):
        with pytest.raises(BadRequest):
            parse_query(query)
    assert parse_query("project_id=" + "%f0%9f%98%80" * 64).project_id == "\U0001f600" * 64
    assert parse_query(f"{'%&' * 30_000}legacy_key={KEY}").legacy_key == KEY
    with pytest.raises(Unauthorized):
        parse_query("&".join([f"legacy_key={KEY}"] * 9))


def test_long_values_are_not_kept() -> None:
    before = _parse_cached.cache_info().currsize
    for number in range(50):
        assert client_key(f"Legacy legacy_key={number:032x}, t={'x' * 600}", None, "") == b"%032x" % number
    assert _parse_cached.cache_info().currsize == before
