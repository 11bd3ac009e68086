"""HEAD answers wherever GET does, with its status and headers and without a body; live lists answer it 405."""

from collections.abc import Mapping

from tests.query.conftest import PATH, Explore, Loader, span
from tests.query.test_query_parameters import operations

OWN_OF_EACH = ("x-request-id", "date", "retry-after")  # the last is drawn at random


async def asked(explore: Explore, method: str, path: str) -> tuple[int, Mapping[str, str], bytes]:
    headers = {"Authorization": "Bearer mine", "Accept-Encoding": "gzip"}
    async with explore.client.request(method, path, headers=headers, auto_decompress=False) as answer:
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() not in OWN_OF_EACH and not name.lower().startswith("x-ratelimit")
        }
        return answer.status, kept, await answer.read()


async def test_head_is_get_without_a_body(explore: Explore, loader: Loader) -> None:
    await loader.spans(*[span(number) for number in range(1, 100)])
    paths = [one.path for one in await operations(explore) if one.method == "get"]
    assert len(paths) > 15
    for path in paths:
        if path.endswith("/live"):
            status, headers, body = await asked(explore, "HEAD", path)
            assert (status, headers["Allow"], body) == (405, "GET", b"")
        else:
            status, of_get, body = await asked(explore, "GET", path)
            assert await asked(explore, "HEAD", path) == (status, of_get, b""), path
            assert of_get["Content-Length"] == str(len(body)), path
    status, of_get, body = await asked(explore, "GET", f"{PATH}/spans?limit=99")
    assert (status, of_get["Content-Encoding"]) == (200, "gzip")
    assert await asked(explore, "HEAD", f"{PATH}/spans?limit=99") == (status, of_get, b"")
