"""What no column takes, or each database takes its own way, never gets that far: it is refused, and never a 500."""

from typing import Any

import pytest
from yarl import URL

from tests.control.conftest import Control

pytestmark = pytest.mark.both_stores

ODD = (
    *("\x00", "a\x00b", "\ud800", "\udcff"),
    *("\u202e", "\U0001f98a" * 65, "%00", "'; DROP TABLE projects; --", "\\x00", "\u00e9\u0301"),
)


async def test_invalid_text_in_a_path_is_404(control: Control) -> None:
    for text in ODD:
        await check_path(control, "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass")))


async def check_path(control: Control, quoted: str) -> None:
    """Nothing is there, and a method that changes things changes nothing."""
    for method, path in (
        ("GET", f"/orgs/{quoted}/projects"),
        ("GET", f"/orgs/acme/projects/{quoted}"),
        ("PATCH", f"/orgs/acme/projects/{quoted}"),
        ("GET", f"/orgs/acme/projects/{quoted}/keys"),
        ("DELETE", f"/orgs/acme/projects/web/keys/{quoted}"),
        ("PATCH", f"/orgs/acme/projects/web/keys/{quoted}"),
        ("GET", f"/orgs/acme/members/{quoted}"),
        ("DELETE", f"/orgs/acme/invitations/{quoted}"),
        ("PATCH", f"/orgs/acme/principals/{quoted}"),
        ("GET", f"/orgs/acme/principals/{quoted}/tokens"),
        ("DELETE", f"/orgs/acme/tokens/{quoted}"),
    ):
        body = {"name": "x"} if method == "PATCH" else None
        status, answer, _ = await control.call(method, str(URL(path, encoded=True)), body)
        assert (status, answer["error"]["code"]) in {(404, "not_found"), (400, "bad_request")}, (method, path)


async def test_invalid_text_in_a_body_is_400(control: Control) -> None:
    for text in (*ODD[:4], "x" * 201, ""):
        await check_body(control, text)


async def check_body(control: Control, text: str) -> None:
    """Each field that holds a text refuses it."""
    escaped = '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'
    project = f'{{"slug": {escaped}, "name": "x"}}', f'{{"slug": "x", "name": {escaped}}}'
    sent: list[tuple[str, str, str]] = [
        *(("POST", "/orgs/acme/projects", body) for body in project),
        ("PATCH", "/orgs/acme/projects/web", f'{{"sensitiveWords": [{escaped}]}}'),
        ("POST", "/orgs/acme/projects/web/keys", f'{{"name": {escaped}}}'),
        ("PATCH", "/orgs/acme", f'{{"name": {escaped}}}'),
        ("POST", "/orgs/acme/invitations", f'{{"email": {escaped}, "role": "VIEWER"}}'),
        ("POST", "/orgs/acme/principals", f'{{"kind": "agent", "name": {escaped}}}'),
        ("POST", "/orgs/acme/tokens", f'{{"name": {escaped}}}'),
        ("POST", "/auth/login", f'{{"email": {escaped}, "password": "x"}}'),
    ]
    for method, path, body in sent:
        answer: tuple[int, Any, Any] = await control.call(
            method, path, data=body.encode(), headers={"Content-Type": "application/json"}
        )
        assert (answer[0], answer[1]["error"]["code"]) == (400, "bad_request"), (method, path, body)


async def test_names_in_any_script_are_stored_unchanged(control: Control) -> None:
    names = ["Ünïcödé", "日本語", "مرحبا", "\U0001d518\U0001d52b\U0001d526", "a'b\"c\\d%s;--", "🦊" * 200]
    for number, name in enumerate(names):
        assert (await control.call("POST", "/orgs/acme/projects", {"slug": f"p{number}", "name": name}))[0] == 201
    _, page, _ = await control.call("GET", "/orgs/acme/projects")
    assert [one["name"] for one in page["data"]] == [*names, "Web"]


async def test_pages_are_sorted_by_code_point(control: Control) -> None:
    """Collations of a language skip dashes and put digits elsewhere; a cursor must mean the same place everywhere."""
    slugs = ["a-b", "ab", "a-c", "a1", "a-1", "aa", "b", "a", "0", "10", "2", "a--b"]
    for slug in slugs:
        assert (await control.call("POST", "/orgs/acme/projects", {"slug": slug, "name": "x"}))[0] == 201
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page, _ = await control.call("GET", "/orgs/acme/projects", params={"limit": "1"} | cursor)
        seen += [one["slug"] for one in page["data"]]
        if not page["hasMore"]:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == sorted([*slugs, "web"])
