"""Documents through the guarded egress: complete, or an error."""

import socket
import threading
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from control.outbound.egress import MAX_BODY_BYTES, AddressBlocked, Egress, EgressError, HttpReply, NameNotResolved
from control.outbound.egress_policy import EgressPolicy
from tests.control.outbound.going_out import HERE, opened, speaking

REQUESTS = ["get", "post_form"]


async def request(egress: Egress, method: str, url: str, account: str = "") -> HttpReply:
    """The document, by either method."""
    if method == "get":
        return await egress.get(url, {"Accept": "application/json"}, account=account)
    return await egress.post_form(url, {"a": "b c&d"}, {"Accept": "application/json"}, account=account)


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


@pytest.mark.parametrize("method", REQUESTS)
async def test_a_document_has_at_most_so_many_bytes(method: str) -> None:
    async with speaking(response(b"x" * MAX_BODY_BYTES)) as port, opened() as egress:
        assert len((await request(egress, method, f"http://127.0.0.1:{port}/")).body) == MAX_BODY_BYTES
    async with speaking(response(b"x" * (MAX_BODY_BYTES + 1))) as port, opened() as egress:
        refused = await failure(egress, method, f"http://127.0.0.1:{port}/")
    assert (refused.detail, refused.permanent) == ("The response is too large.", False)


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize(
    "body",
    [response(b"{}", 3), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"],
    ids=["length", "chunked"],
)
async def test_a_document_that_breaks_off_is_an_error(method: str, body: bytes) -> None:
    async with speaking(body) as port, opened() as egress:
        broken = await failure(egress, method, f"http://127.0.0.1:{port}/")
    assert (broken.detail, broken.permanent) == ("The connection was lost.", False)


@pytest.mark.parametrize("method", REQUESTS)
async def test_a_document_that_does_not_end_is_an_error(method: str) -> None:
    async with speaking(response(b"{}", 3), hang=True) as port, opened(total_s=0.3) as egress:
        late = await failure(egress, method, f"http://127.0.0.1:{port}/")
    assert (late.detail, late.permanent) == ("The server did not respond in time.", False)


@pytest.mark.parametrize("method", REQUESTS)
async def test_redirects_are_not_followed(method: str) -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    async with speaking(head) as port, opened() as egress:
        assert (await request(egress, method, f"http://127.0.0.1:{port}/")).status == 302


@pytest.mark.parametrize("method", REQUESTS)
async def test_the_guard_holds(method: str) -> None:
    async with opened(EgressPolicy(allow_http=True)) as egress:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"):
            assert isinstance(await failure(egress, method, f"http://{host}/"), AddressBlocked)
        assert isinstance(await failure(egress, method, "http://localhost/"), NameNotResolved)
    async with opened(EgressPolicy()) as egress:
        assert (await failure(egress, method, "http://idp.example.com/")).detail == "The URL must begin with https://."
    with pytest.raises(EgressError, match="shutting down"):
        await request(Egress(HERE), method, "http://127.0.0.1/")


@pytest.mark.parametrize("method", REQUESTS)
async def test_slow_names_hold_the_slots_of_their_account(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    released = threading.Event()

    def getaddrinfo(host: str, *_arguments: Any, **_options: Any) -> Any:
        if host.startswith("slow"):
            released.wait(10)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    async with opened(EgressPolicy(allow_http=True), total_s=0.2) as egress:
        for _ in range(4):
            with pytest.raises(EgressError, match="in time"):
                await request(egress, method, "http://slow.example.com/", "acme")
        with pytest.raises(EgressError, match="in time"):
            await request(egress, method, "http://quick.example.com/", "acme")
        with pytest.raises(NameNotResolved):
            await request(egress, method, "http://quick.example.com/", "globex")
        released.set()
