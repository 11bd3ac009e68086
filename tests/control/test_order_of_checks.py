"""What a path names and the caller cannot see is 404, whatever else is wrong with the request: its media type, the size
and content of its body, its query parameters.
"""

import re
from typing import Any, Final, NamedTuple

from yarl import URL

from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.test_existence import NOWHERE, everything_of, filled, routes
from tests.control.test_query_parameters import UNLIMITED

pytestmark = UNLIMITED

JSON: Final = {"Content-Type": "application/json"}


class Bad(NamedTuple):
    """What is wrong with a request."""

    query: str
    headers: dict[str, str]
    body: bytes


BAD: Final = (
    Bad("", JSON, b""),
    Bad("", JSON, b"["),
    Bad("", JSON, b'{"nonsense":1}'),
    Bad("", {"Content-Type": "text/plain"}, b"{}"),
    Bad("", JSON, b" " * 70_000),
    Bad("?nonsense=1&limit=0&cursor=x&verified=x&status=x", JSON, b"{}"),
)
SCIM_ROUTES: Final = [
    (method, f"/scim/v2/acme/{kind}/{'scu' if kind == 'Users' else 'scg'}_{'0' * 26}")
    for kind in ("Users", "Groups")
    for method in ("GET", "PUT", "PATCH", "DELETE")
]


async def status_of(control: Control, method: str, path: str, bad: Bad, token: str | None = None) -> tuple[int, Any]:
    options: dict[str, Any] = {} if method == "GET" else {"data": bad.body}
    url = URL(path + bad.query, encoded=True)
    status, answer, _ = await control.call(method, url, headers=bad.headers, token=token, **options)
    return status, answer


async def test_what_a_path_names_is_looked_for_before_anything_else_is_refused(control: Control) -> None:
    ours = await everything_of(control, control.acme)
    theirs = await everything_of(control, control.globex)
    found = [(method, path) for method, path in routes(control) if "Id}" in path and method != "HEAD"]
    assert len(found) > 60
    for method, path in found:
        for name in re.findall(r"\{(\w+Id)\}", path):
            for ids, faults in ((NOWHERE, BAD if method in ("POST", "PUT", "PATCH") else BAD[-1:]), (theirs, BAD[-1:])):
                where = filled(path, "acme", "web", ours | {name: ids[name]})
                for bad in faults:
                    status, answer = await status_of(control, method, where, bad)
                    assert (status, answer["error"]["code"]) == (404, "not_found"), (method, path, name, bad)


async def test_a_missing_key_is_404_for_a_caller_without_the_read_scope_too(control: Control) -> None:
    """Who may change keys learns it from the change: before the body is read, as from a body that is valid."""
    _, token = await new_member_token(control.checks.database, control.acme, Role.OWNER, frozenset({Scope.KEYS_WRITE}))
    key = f"/orgs/acme/projects/web/keys/{NOWHERE['keyId']}"
    for method, path in (("PATCH", key), ("POST", f"{key}/rotate")):
        for bad in BAD[:5]:
            status, answer = await status_of(control, method, path, bad, token)
            assert (status, answer["error"]["code"]) == (404, "not_found"), (path, bad)


async def test_a_directory_learns_that_a_resource_is_missing_before_its_body_is_read(control: Control) -> None:
    _, made, _ = await control.call("POST", "/orgs/acme/scim-tokens", {"name": "Directory"})
    token = made["token"]
    for method, path in SCIM_ROUTES:
        for bad in BAD[:5] if method in ("PUT", "PATCH") else BAD[:1]:
            status, answer = await status_of(control, method, path, bad, token)
            assert (status, answer["status"]) == (404, "404"), (method, path, bad)
