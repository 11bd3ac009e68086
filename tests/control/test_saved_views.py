"""Saved views: who sees and deletes them, what they may lead to, how many there are, and how they end."""

from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from control import saved_views as module_of_views
from control.governance.erasures.purge import Purger
from control.saved_views import MAX_PATH_LENGTH, PATH_PATTERN, NewSavedView, saved_views
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control

VIEWS = "/orgs/acme/projects/web/views"
PATH = "/ui/acme/web/explore?from=now-1h&to=now&q=serviceName%3Apayment&box=1%2C2&cols=a,b[c]"


async def member(control: Control, role: Role = Role.MEMBER, scopes: frozenset[Scope] | None = None) -> tuple[str, str]:
    """Id and token."""
    return await new_member_token(control.checks.database, control.acme, role, scopes)


async def save(control: Control, token: str | None = None, **more: Any) -> dict[str, Any]:
    status, made, _ = await control.call("POST", VIEWS, {"name": "Payment", "path": PATH} | more, token)
    assert status == 201, made
    view: dict[str, Any] = made
    return view


async def names(control: Control, token: str | None = None) -> list[str]:
    status, page, _ = await control.call("GET", VIEWS, token=token)
    assert (status, page["nextCursor"], page["hasMore"]) == (200, None, False)
    return [one["name"] for one in page["data"]]


async def audit(control: Control) -> list[tuple[str, str, Any]]:
    _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "saved_view.", "limit": "100"})
    return [(one["action"], one["objectId"], one["data"]) for one in reversed(page["data"])]


@pytest.mark.both_stores
async def test_views_are_ones_own_or_shared(control: Control) -> None:
    (ada, ada_token), (_, bob_token) = await member(control), await member(control)
    own = await save(control, ada_token, name="Mine")
    shared = await save(control, ada_token, name="Ours", shared=True)
    assert own == {
        "id": own["id"],
        "name": "Mine",
        "path": PATH,
        "shared": False,
        "createdBy": ada,
        "createdByName": "Member",
        "createdAt": own["createdAt"],
        "mayDelete": True,
    }
    assert (await control.call("GET", VIEWS, token=ada_token))[1]["data"] == [shared, own]
    assert (await control.call("GET", VIEWS, token=bob_token))[1]["data"] == [shared | {"mayDelete": False}]
    assert (await control.call("GET", VIEWS))[1]["data"] == [shared]
    about = {"shared": False, "projectSlug": "web", "createdBy": ada}
    assert await audit(control) == [
        ("saved_view.create", own["id"], {"name": "Mine"} | about),
        ("saved_view.create", shared["id"], {"name": "Ours"} | about | {"shared": True}),
    ]


async def test_who_may_delete_a_view(control: Control) -> None:
    (_, ada), (_, bob), (_, admin) = await member(control), await member(control), await member(control, Role.ADMIN)
    own, shared = await save(control, ada), await save(control, ada, shared=True)

    async def deleted(view: dict[str, Any], token: str) -> tuple[int, Any]:
        status, answer, _ = await control.call("DELETE", f"{VIEWS}/{view['id']}", token=token)
        return status, answer and answer["error"]["message"]

    assert await deleted(own, bob) == (404, "Not found.")
    assert await deleted(shared, bob) == (403, "Only the creator of a shared view or an administrator can delete it.")
    assert await names(control, ada) == ["Payment", "Payment"]
    assert await deleted(shared, admin) == (204, None)
    assert await deleted(shared, admin) == (404, "Not found.")
    assert await deleted(own, ada) == (204, None)
    assert await names(control, ada) == []
    another = await save(control, ada)
    assert await deleted(another, admin) == (204, None), "whose id an administrator has from the audit log"
    assert [action for action, _, _ in await audit(control)].count("saved_view.delete") == 3


async def test_a_viewer_keeps_views_and_shares_none(control: Control) -> None:
    _, viewer = await member(control, Role.VIEWER)
    assert (await save(control, viewer))["shared"] is False
    status, answer, _ = await control.call("POST", VIEWS, {"name": "x", "path": "/ui/", "shared": True}, viewer)
    assert (status, answer["error"]["message"]) == (403, "Sharing a view requires the role MEMBER, ADMIN or OWNER.")


GOOD = (
    "/ui/",
    "/ui/acme",
    "/ui/acme/",
    "/ui/acme/web/trace/0af7651916cd43dd8448eb211c80319c?span=b7ad6b7169203331",
    "/ui/acme/web/explore?q=a%2F%2Fb&x=/y/z",
    "/ui/?a=b",
    "/ui/acme/web?",
    "/ui/" + "x" * (MAX_PATH_LENGTH - 4),
)
BAD = (
    *("", "/", "/ui", "ui/", "/uix/", "/UI/", "/auth/logout", " /ui/", "/ui/ ", "/ui/a\n", "\n/ui/"),
    *("//evil.example/ui/", "https://evil.example/ui/", "javascript:alert(1)//ui/", "/\\evil.example", "\\ui\\"),
    *("/ui//evil.example", "/ui/a//b", "/ui/a?next=//evil.example", "/ui/a?next=https://evil.example", "/ui/?//"),
    *("/ui/..", "/ui/../auth", "/ui/a/../../auth", "/ui/./a", "/ui/a/.", "/ui/%2e%2e/auth", "/ui/%2E./a", "/ui/.%2e"),
    *("/ui/#code=x", "/ui/a#b", "/ui/a?b#c", "/ui/a\\b", "/ui/a?b=\\", '/ui/a?"', "/ui/a?<b>", "/ui/<b>"),
    *("/ui/a b", "/ui/a\tb", "/ui/a\x00", "/ui/a\x7f", "/ui/\u00e9", "/ui/a?\u202e", "/ui/\u2028", "/ui/a?\u200b"),
    "/ui/" + "x" * (MAX_PATH_LENGTH - 3),
)


async def test_views_lead_to_the_page_alone(control: Control) -> None:
    for path in GOOD:
        made = await save(control, path=path)
        assert made["path"] == path
        assert (await control.call("DELETE", f"{VIEWS}/{made['id']}"))[0] == 204
    for path in BAD:
        status, answer, _ = await control.call("POST", VIEWS, {"name": "x", "path": path})
        assert status == 400, path
        assert [one["path"] for one in answer["error"]["details"]] == ["body.path"], path
    for body in (
        {},
        {"name": "x"},
        {"path": "/ui/"},
        {"name": "", "path": "/ui/"},
        {"name": "a\u202eb", "path": "/ui/"},
    ):
        assert (await control.call("POST", VIEWS, body))[0] == 400, body
    for more in ({"shared": 1}, {"id": "viw_1"}, {"path": None}, {"path": ["/ui/"]}):
        assert (await control.call("POST", VIEWS, {"name": "x", "path": "/ui/"} | more))[0] == 400, more
    assert await names(control) == []


@settings(max_examples=50)
@given(st.from_regex(PATH_PATTERN) | st.text("/.%2eEuia?#\\@:;", max_size=12).map(lambda text: f"/ui/{text}"))
def test_what_is_stored_resolves_to_the_page(path: str) -> None:
    """As another program reads addresses: relative to a page, it has the origin of that page and stays below `/ui/`."""
    try:
        msgspec.convert({"name": "x", "path": path}, NewSavedView)
    except msgspec.ValidationError:
        return
    resolved = URL("https://sluice.example.org/ui/acme/").join(URL(path, encoded=True))
    assert resolved.origin() == URL("https://sluice.example.org")
    assert resolved.raw_path.startswith("/ui/")
    assert ".." not in resolved.path.split("/")
    assert resolved.fragment == ""


async def test_a_view_too_many_is_refused_until_one_is_deleted(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the shared ones, and of one's own, which are in nobody else's way."""
    for name, message, for_others in (
        ("MAX_VIEWS", "The project has 3 shared views, the maximum. Delete one first.", 409),
        ("MAX_OWN_VIEWS", "You have 3 saved views in the project, the maximum. Delete one first.", 201),
    ):
        (_, ada), (_, bob) = await member(control), await member(control)
        view = {"name": "x", "path": "/ui/", "shared": name == "MAX_VIEWS"}
        with monkeypatch.context() as patched:
            patched.setattr(module_of_views, name, 3)
            made = [await save(control, ada, **view | {"name": str(number)}) for number in range(3)]
            status, answer, _ = await control.call("POST", VIEWS, view, ada)
            assert (status, answer["error"]["message"]) == (409, message)
            assert (await control.call("POST", VIEWS, view, bob))[0] == for_others
            await save(control, bob, **view | {"shared": False})
            assert (await control.call("DELETE", f"{VIEWS}/{made[0]['id']}", token=ada))[0] == 204
            await save(control, ada, **view)


async def count(control: Control) -> int:
    async with control.checks.database.read() as connection:
        return await connection.scalar(sa.select(sa.func.count()).select_from(saved_views)) or 0


@pytest.mark.both_stores
async def test_who_leaves_takes_along_what_only_they_see(control: Control) -> None:
    ada, token = await member(control)
    await save(control, token, name="Mine")
    shared = await save(control, token, name="Ours", shared=True)
    assert (await control.call("DELETE", f"/orgs/acme/members/{ada}"))[0] == 204
    assert await names(control) == ["Ours"]
    assert await count(control) == 1
    assert (await control.call("DELETE", f"{VIEWS}/{shared['id']}"))[0] == 204


@pytest.mark.both_stores
async def test_views_end_with_their_project(control: Control) -> None:
    assert (await control.call("POST", "/orgs/acme/projects", {"slug": "shop", "name": "Shop"}))[0] == 201
    other = "/orgs/acme/projects/shop/views"
    for path in (VIEWS, other):
        assert (await control.call("POST", path, {"name": path, "path": "/ui/"}))[0] == 201
    assert await names(control) == [VIEWS]
    view_id = (await control.call("GET", other))[1]["data"][0]["id"]
    assert (await control.call("DELETE", f"{VIEWS}/{view_id}"))[0] == 404, "it is of another project"
    assert (await control.call("DELETE", "/orgs/acme/projects/web"))[0] == 202
    await Purger(control.checks.database, pause_s=0).poll_once()
    assert await count(control) == 1
    assert (await control.call("GET", other))[1]["data"][0]["id"] == view_id
