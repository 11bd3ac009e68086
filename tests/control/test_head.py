"""HEAD answers wherever GET does, with its status and headers and without a body. Where GET has an effect or streams
its answer, HEAD is a 405 that changes nothing.
"""

from collections.abc import Mapping
from typing import Any

from tests.control.conftest import Control
from tests.control.identity.accounts import join
from tests.control.test_query_parameters import UNLIMITED, VALUES

pytestmark = UNLIMITED

OWN_OF_EACH = ("x-request-id", "date", "set-cookie")
WITHOUT_HEAD = {
    "/sso/saml/{orgSlug}/start",
    "/sso/oidc/{orgSlug}/start",
    "/sso/oidc/{orgSlug}/callback",
    "/orgs/{orgSlug}/audit/export",
}


async def gettable(control: Control) -> list[tuple[str, str]]:
    """The paths with GET: as declared, and with values."""
    _, document, _ = await control.call("GET", "/openapi.json")
    return [
        (path, path.format_map({each["name"]: "x" for each in methods["get"]["parameters"]} | VALUES))
        for path, methods in document["paths"].items()
        if "get" in methods
    ]


async def asked(
    control: Control, method: str, path: str, headers: dict[str, str]
) -> tuple[int, Mapping[str, str], bytes]:
    async with control.client.request(method, path, headers=headers, allow_redirects=False) as answer:
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in OWN_OF_EACH}
        return answer.status, kept, await answer.read()


async def recorded(control: Control) -> Any:
    return (await control.call("GET", "/orgs/acme/audit"))[1]["data"]


async def test_head_is_get_without_a_body(control: Control) -> None:
    session = (await join(control, control.acme)).access
    statuses, before = set(), await recorded(control)
    for declared, path in await gettable(control):
        if declared in WITHOUT_HEAD | {"/metrics"}:  # metrics change from one answer to the next
            continue
        token = session if path.startswith("/auth/") else control.acme.token.secret
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
        status, of_get, body = await asked(control, "GET", path, headers)
        assert await asked(control, "HEAD", path, headers) == (status, of_get, b""), path
        assert of_get["Content-Length"] == str(len(body)), path
        statuses.add(status)
    assert statuses >= {200, 404}
    assert await recorded(control) == before
    assert (await asked(control, "HEAD", "/metrics", {}))[0] == 200
    assert (await asked(control, "HEAD", "/orgs/acme", {}))[0] == 401


async def test_where_get_has_an_effect_or_streams_head_is_405(control: Control) -> None:
    headers = {"Authorization": f"Bearer {control.acme.token.secret}"}
    found = [path for declared, path in await gettable(control) if declared in WITHOUT_HEAD]
    assert len(found) == len(WITHOUT_HEAD)
    before = await recorded(control)
    for path in found:
        status, answered, body = await asked(control, "HEAD", path, headers)
        assert (status, answered["Allow"], body) == (405, "GET", b""), path
    assert await recorded(control) == before


async def test_paths_without_get_have_no_head(control: Control) -> None:
    status, headers, _ = await asked(control, "HEAD", "/auth/login", {})
    assert (status, headers["Allow"]) == (405, "POST")
    status, headers, _ = await asked(control, "PUT", "/auth/keys", {})
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
