"""On every route with a JSON body of ours, a key that an object has twice is a 400 that names its place, also where the
body has other faults. Directories and webhooks keep the rules of their senders.
"""

from typing import Any

from tests.control.conftest import Control
from tests.control.identity.accounts import join
from tests.control.test_query_parameters import UNLIMITED, Asked
from tests.control.test_query_parameters import operations as every_operation

pytestmark = UNLIMITED

TWICE = b'{"nonsense": [{"deep": 1, "d\\u0065ep": 2}], "name": "a", "name": "b"}'
PLACES = ["body.nonsense[0].deep", "body.name"]
JSON = "application/json"
# Proof bundles that are validated have their faults in a 200; source maps are written by tools of others.
OTHERS = ("/scim", "/webhooks", "/orgs/acme/projects/web/proof-bundles/validate", "/orgs/acme/projects/web/source-maps")


async def operations(control: Control) -> list[Asked]:
    """Those with a JSON body."""
    return [each for each in await every_operation(control) if each.example is not None]


async def ask(control: Control, asked: Asked, body: bytes, media_type: str, session: str) -> tuple[int, Any]:
    """Status and error."""
    token = session if asked.path.startswith("/auth/") else control.acme.token.secret
    headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type}
    status, answer, _ = await control.call(asked.method, asked.path, data=body, headers=headers)
    return status, answer["error"] if isinstance(answer, dict) else None


async def test_every_route_names_repeated_keys_and_refuses_another_charset(control: Control) -> None:
    session = (await join(control, control.acme)).access
    found = [each for each in await operations(control) if not each.path.startswith("/webhooks")]
    named, refused = [], []
    for asked in found:
        status, error = await ask(control, asked, b"{}", f"{JSON}; charset=iso-8859-1", session)
        if status in (401, 403, 404):  # what is checked first
            continue
        expected = 400 if asked.path.startswith("/sso") else 415  # the handoff has no other status of its own
        message = "Send UTF-8: omit `charset` in Content-Type or set it to utf-8."
        assert (status, error["message"]) == (expected, message), (asked, error)
        refused.append(asked)
        if not asked.path.startswith(OTHERS):
            status, error = await ask(control, asked, TWICE, JSON, session)
            repeated = [issue["path"] for issue in error["details"] if issue["code"] == "repeated"]
            assert (status, repeated) == (400, PLACES), (asked, error)
            named.append(asked)
    assert len(named) > 30
    for walked in (named, refused):
        assert {asked.path.split("/")[1] for asked in walked} == {"auth", "orgs", "sso"}


async def test_parameters_that_say_nothing_of_the_charset_are_ignored(control: Control) -> None:
    for number, media_type in enumerate((f'{JSON}; charset="UTF-8"', f"{JSON};profile=latin1;v=1")):
        body = b'{"slug": "p%d", "name": "x"}' % number
        status, _, _ = await control.call(
            "POST", "/orgs/acme/projects", data=body, headers={"Content-Type": media_type}
        )
        assert status == 201


async def test_directories_keep_their_own_rule(control: Control) -> None:
    """RFC 7644 says nothing of repeated keys, and the directories of others are not to break over them."""
    _, made, _ = await control.call("POST", "/orgs/acme/scim-tokens", {"name": "Directory"})
    body = (
        b'{"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "a@example.com", '
        b'"userName": "b@example.com", "emails": [{"value": "b@example.com"}]}'
    )
    headers = {"Content-Type": "application/scim+json", "Authorization": f"Bearer {made['token']}"}
    async with control.client.post("/scim/v2/acme/Users", data=body, headers=headers) as answer:
        assert answer.status == 201
        assert (await answer.json(content_type=None))["userName"] == "b@example.com"
    headers["Content-Type"] = "application/scim+json; charset=utf-16"
    async with control.client.post("/scim/v2/acme/Users", data=body, headers=headers) as answer:
        assert answer.status == 415
