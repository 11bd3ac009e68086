"""Large answers are compressed for clients that accept it, and only where no secret is answered."""

import gzip
import json
from typing import Any

import pytest
from aiohttp import web

from chassis.http.compression import MAX_INLINE_BYTES, MIN_BYTES
from chassis.http.web import Route, json_response, public
from tests.chassis.conftest import Serve


def answering(size: int, headers: dict[str, str] | None = None, status: int = 200) -> Any:
    """A handler whose JSON has so many bytes."""

    async def handler(_request: web.Request) -> web.Response:
        return json_response("x" * (size - 2), status, headers)

    return handler


@pytest.mark.parametrize("size", [MIN_BYTES + 1, MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, 2**22])
async def test_large_answers_are_compressed(serve: Serve, size: int) -> None:
    served = await serve([Route("GET", "/x", answering(size), public())])
    for accepted in ("gzip", "deflate, gzip;q=0.5", "*", "GZIP", "br, *;q=0.1"):
        status, headers, body = await served.get("/x", headers={"Accept-Encoding": accepted})
        assert (status, headers["Content-Encoding"], headers["Vary"]) == (200, "gzip", "Accept-Encoding"), accepted
        assert headers["Content-Length"] == str(len(body))
        assert len(json.loads(gzip.decompress(body))) == size - 2
        assert len(body) < size / 10


async def test_what_is_not_compressed(serve: Serve) -> None:
    large = answering(MIN_BYTES + 1)
    encoded = answering(MIN_BYTES + 1, {"Content-Encoding": "br"})

    async def binary(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * (MIN_BYTES + 1))

    served = await serve(
        [
            Route("GET", "/x", large, public()),
            Route("POST", "/x", large, public()),
            Route("POST", "/asked", large, public(), compress=True),
            Route("GET", "/refused", large, public(), compress=False),
            Route("GET", "/auth/x", large, public()),
            Route("GET", "/sso/x", large, public()),
            Route("GET", "/small", answering(MIN_BYTES), public()),
            Route("GET", "/encoded", encoded, public()),
            Route("GET", "/binary", binary, public()),
        ]
    )
    for accepted in ("", "identity", "gzip;q=0", "br", "gzip;q=x", "*;q=0", "gzip;q=0, *"):
        _, headers, body = await served.get("/x", headers={"Accept-Encoding": accepted})
        assert "Content-Encoding" not in headers, accepted
        assert headers["Vary"] == "Accept-Encoding"
        assert len(body) == MIN_BYTES + 1
    for path in ("/refused", "/auth/x", "/sso/x", "/small", "/binary"):
        _, headers, _ = await served.get(path, headers={"Accept-Encoding": "gzip"})
        assert ("Content-Encoding" in headers, "Vary" in headers) == (False, False), path
    assert (await served.get("/encoded", headers={"Accept-Encoding": "gzip"}))[1]["Content-Encoding"] == "br"
    accepting = {"Accept-Encoding": "gzip"}
    assert "Content-Encoding" not in (await served.request("POST", "/x", headers=accepting))[1]
    assert (await served.request("POST", "/asked", headers=accepting))[1]["Content-Encoding"] == "gzip"


async def test_json_is_for_its_reader_alone_and_nothing_but_json(serve: Serve) -> None:
    cached = answering(10, {"Cache-Control": "public, max-age=300"})
    served = await serve([Route("GET", "/x", answering(10), public()), Route("GET", "/cached", cached, public())])
    for path, control in (("/x", "no-store"), ("/cached", "public, max-age=300"), ("/missing", "no-store")):
        _, headers, _ = await served.get(path)
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == (control, "nosniff"), path
