"""Documents through the guarded egress: complete, or an error."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from control.outbound.egress import MAX_BODY_BYTES, Egress, EgressError, HttpReply
from tests.control.outbound.going_out import opened, speaking

REQUESTS = ["get", "post_form"]


async def request(egress: Egress, method: str, url: str) -> HttpReply:
    """The document, by either method."""
    if method == "get":
        return await egress.get(url, {"Accept": "application/json"})
    return await egress.post_form(url, {"a": "b c&d"}, {"Accept": "application/json"})


async def failure(egress: Egress, method: str, url: str) -> EgressError:
    with pytest.raises(EgressError) as raised:
        await request(egress, method, url)
    return raised.value


def response(body: bytes, length: int | None = None) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


async def test_what_is_sent_and_what_comes_back() -> None:
    seen: list[tuple[str, str, str, dict[str, Any]]] = []

    async def handler(got: web.Request) -> web.StreamResponse:
        form = dict(await got.post())
        seen.append((got.method, got.path_qs, got.headers.get("Accept", ""), form))
        return web.Response(status=203, text="hello", headers={"X": "y"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server, opened() as egress:
        for method in REQUESTS:
            reply = await request(egress, method, str(server.make_url("/a?b=c")))
            assert (reply.status, reply.headers["X"], reply.body) == (203, "y", b"hello")
    assert seen == [
        ("GET", "/a?b=c", "application/json", {}),
        ("POST", "/a?b=c", "application/json", {"a": "b c&d"}),
    ]


async def test_a_document_is_whole_or_an_error() -> None:
    """It has at most so many bytes; redirects are not followed."""
    url = "http://127.0.0.1:{}/"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    async with opened() as egress, opened(total_s=0.3) as hasty:
        for method in REQUESTS:
            async with speaking(response(b"x" * MAX_BODY_BYTES)) as port:
                assert len((await request(egress, method, url.format(port))).body) == MAX_BODY_BYTES
            async with speaking(redirect) as port:
                assert (await request(egress, method, url.format(port))).status == 302
            for body, detail in (
                (response(b"x" * (MAX_BODY_BYTES + 1)), "The response is too large."),
                (response(b"{}", 3), "The connection was lost."),
                (chunked, "The connection was lost."),
            ):
                async with speaking(body) as port:
                    broken = await failure(egress, method, url.format(port))
                assert (broken.detail, broken.permanent) == (detail, False)
            async with speaking(response(b"{}", 3), hang=True) as port:
                late = await failure(hasty, method, url.format(port))
            assert (late.detail, late.permanent) == ("The server did not respond in time.", False)
