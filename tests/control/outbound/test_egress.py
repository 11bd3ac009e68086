"""The way out: what is reached, and what an other end may do to us.

Documents through the guarded egress: complete, or an error.
"""

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from control.outbound.egress import MAX_BODY_BYTES, AddressBlocked, Egress, EgressError, HttpReply, NameNotResolved
from control.outbound.egress_policy import EgressPolicy
from tests.certificates import self_signed, server_context
from tests.control.outbound.going_out import HERE, failure, opened, speaking

UNSPECIFIED = "0.0.0.0"  # noqa: S104  # an address to refuse


@asynccontextmanager
async def serving(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app, scheme="http" if tls is None else "https")
    await server.start_server(ssl=tls)
    yield server
    await server.close()


async def hello(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="hello", headers={"X": "y"})


async def test_an_answer_comes_with_its_status_and_head() -> None:
    async with serving(hello) as server, opened() as egress:
        reply = await egress.post(str(server.make_url("/")), b"body", {"A": "b"})
    assert (reply.status, reply.headers["X"], reply.body) == (200, "y", b"hello")


async def test_no_notation_of_a_private_address_is_reached() -> None:
    literals = (
        "127.0.0.1", "0x7f.1", "0x7f000001", UNSPECIFIED, "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "169.254.169.254", "[fe80::1]",
    )  # fmt: skip
    everywhere = EgressPolicy(allow_http=True, ports=frozenset(range(65_536)))
    async with serving(hello) as server, opened(everywhere) as egress:
        for host in (*literals, "127.1", "2130706433", "0177.0.0.1", "0"):
            detail = "The address is not allowed." if host in literals else "The URL is not valid."
            refused = await failure(egress, f"http://{host}:{server.port}/")
            assert (refused.permanent, refused.detail) == (True, detail), host


async def test_ports_and_schemes_are_held_to_the_policy() -> None:
    async with opened(EgressPolicy(allow_http=True)) as egress:
        assert isinstance(await failure(egress, "http://1.1.1.1:22/"), AddressBlocked)
    async with opened(EgressPolicy()) as egress:
        assert (await failure(egress, "http://idp.example.com/")).detail == "The URL must begin with https://."


def _as_found(address: str, port: int) -> Any:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))


def answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """DNS says these addresses, one list after the other, the last one again and again. The names that were asked."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: Any, **options: Any) -> Any:
        if not host.endswith(".test."):  # names are absolute: no search domain is tried
            return real(host, port, *args, **options)
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [_as_found(one, port) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


async def test_one_bad_address_of_a_name_blocks_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(EgressPolicy(allow_http=True)) as egress:
        for addresses in (["127.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["1.1.1.1", "::1"], ["169.254.169.254"]):
            with monkeypatch.context() as patched:
                asked = answering(patched, addresses)
                assert isinstance(await failure(egress, "http://hook.test/"), NameNotResolved), addresses
                with pytest.raises(NameNotResolved):
                    await egress.connect("hook.test.", 443)
                assert asked == ["hook.test.", "hook.test."]


async def test_nobody_is_told_which_names_there_are_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not resolve and one that leads inside fail alike; why is in the log, for the operator."""
    answering(monkeypatch, ["10.1.2.3"])
    inner = {"reason": "address not allowed", "address": "10.1.2.3", "port": 80}
    async with opened(EgressPolicy(allow_http=True)) as egress:
        for name in ("inner.test", "missing.invalid", "localhost", "LOCALHOST", "a." * 120 + "example"):
            with capture_logs() as logs:
                refused = await failure(egress, f"http://{name}/")
            assert refused.detail == "The host name does not resolve to an allowed address."
            assert not refused.permanent
            (said,) = logs
            assert inner.items() <= said.items() if name == "inner.test" else said["reason"] == "does not resolve"
            assert name not in str(said)  # it may be a credential


async def test_names_of_the_operator_may_be_local() -> None:
    async with serving(hello) as server:
        with await Egress(HERE, allow_local_names=True).connect("localhost", server.port or 0) as connected:
            assert connected.getpeername() == ("127.0.0.1", server.port)


async def test_an_account_whose_names_take_their_time_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up whose attempt was given up has its thread until it ends, and counts until then."""
    asked, goes_on = list[str](), threading.Event()

    def getaddrinfo(host: str, port: int, *_args: Any, **_options: Any) -> Any:
        asked.append(host)
        if host.startswith("slow"):
            goes_on.wait(10)
        return [_as_found("10.1.2.3", port)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    async with opened(EgressPolicy(allow_http=True), total_s=0.2) as egress:
        given_up = [egress.post(f"http://slow{number}.test/", b"", {}, account="acme") for number in range(100)]
        for each in await asyncio.gather(*given_up, return_exceptions=True):
            assert isinstance(each, EgressError)
            assert each.detail == "The server did not respond in time."
        quick = "http://quick.test/"
        for error, account in ((EgressError, "acme"), (NameNotResolved, "globex")):
            for asking in (
                egress.post(quick, b"", {}, account=account),
                egress.get(quick, {}, account=account),
                egress.post_form(quick, {}, {}, account=account),
            ):
                with pytest.raises(error, match="in time" if account == "acme" else None):
                    await asking
        assert len(asked) == 4 + 3
        goes_on.set()
        with pytest.raises(NameNotResolved):
            await egress.post("http://quick.test/", b"", {}, account="acme")


async def test_a_name_that_answers_otherwise_the_second_time_is_blocked_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: what is checked is what is connected to, every time."""
    async with (
        serving(hello) as server,
        opened(EgressPolicy((ipaddress.ip_network("127.0.0.1/32"),), allow_http=True)) as egress,
    ):
        answering(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        url = f"http://hook.test:{server.port}/"
        assert (await egress.post(url, b"", {})).status == 200
        assert isinstance(await failure(egress, url), NameNotResolved)


async def test_redirects_cookies_and_proxies_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    async def redirecting(request: web.Request) -> web.StreamResponse:
        seen.append(dict(request.headers))
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/", "Set-Cookie": "a=b; Path=/"})

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with serving(redirecting) as server, opened() as egress:
        for _ in range(2):
            assert (await egress.post(str(server.make_url("/")), b"", {})).status == 307
    assert len(seen) == 2
    assert "Cookie" not in seen[1]
    assert seen[0]["Accept-Encoding"] == "identity"


async def test_a_huge_answer_is_read_so_far_and_a_compressed_one_left_as_it_is() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/huge":
            return web.Response(body=b"x" * 10 * MAX_BODY_BYTES)
        return web.Response(body=b"\x1f\x8bnonsense", headers={"Content-Encoding": "gzip"})

    async with serving(answer) as server, opened() as egress:
        assert len((await egress.post(str(server.make_url("/huge")), b"", {})).body) == MAX_BODY_BYTES
        assert (await egress.post(str(server.make_url("/bomb")), b"", {})).body == b"\x1f\x8bnonsense"


async def test_who_never_answers_is_waited_for_only_so_long() -> None:
    async with speaking(None, hang=True) as port, opened(total_s=0.3) as egress:
        silent = await failure(egress, f"http://127.0.0.1:{port}/")
    assert (silent.permanent, silent.detail) == (False, "The server did not respond in time.")


async def test_an_answer_that_is_no_http_may_be_one_later() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000
    async with opened(total_s=2.0) as egress:
        for answer in (None, b"", b"HTTP/1.1 200", b"220 mail ready\r\n", endless):
            async with speaking(answer) as port:
                broken = await failure(egress, f"http://127.0.0.1:{port}/")
            assert (broken.permanent, str(port) in broken.detail) == (False, False), answer


async def test_a_certificate_must_be_trusted_and_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = self_signed(tmp_path)
    answering(monkeypatch, ["127.0.0.1"])
    trusting = ssl.create_default_context(cafile=pem)
    async with (
        serving(hello, server_context(pem)) as server,
        opened() as doubting,
        opened(tls=trusting) as egress,
    ):
        bad = await failure(doubting, f"https://127.0.0.1:{server.port}/")
        assert (bad.permanent, bad.detail) == (True, "The certificate of the server is not valid.")
        assert (await egress.post(f"https://127.0.0.1:{server.port}/", b"", {})).status == 200
        assert (await failure(egress, f"https://hook.test:{server.port}/")).permanent is True


async def test_an_other_end_without_tls_may_have_it_later() -> None:
    async with serving(hello) as server, opened() as egress:
        assert (await failure(egress, f"https://127.0.0.1:{server.port}/")).permanent is False


async def test_a_socket_for_other_protocols_is_guarded_too() -> None:
    async with serving(hello) as server:
        port = server.port or 0
        with await Egress(HERE).connect("127.0.0.1", port) as connected:
            assert connected.getpeername() == ("127.0.0.1", port)
        with pytest.raises(AddressBlocked):
            await Egress(EgressPolicy()).connect("127.0.0.1", port)
        with pytest.raises(AddressBlocked):
            await Egress(HERE).connect("::1", port)
    with pytest.raises(EgressError, match=r"The connection failed"):
        await Egress(HERE).connect("127.0.0.1", port)


async def test_nothing_goes_out_of_a_process_that_ends() -> None:
    with pytest.raises(EgressError, match="shutting down"):
        await Egress(HERE).post("http://127.0.0.1/", b"", {})


REQUESTS = ["get", "post_form"]


async def request(egress: Egress, method: str, url: str) -> HttpReply:
    """The document, by either method."""
    if method == "get":
        return await egress.get(url, {"Accept": "application/json"})
    return await egress.post_form(url, {"a": "b c&d"}, {"Accept": "application/json"})


async def failure_of_get(egress: Egress, method: str, url: str) -> EgressError:
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
                    broken = await failure_of_get(egress, method, url.format(port))
                assert (broken.detail, broken.permanent) == (detail, False)
            async with speaking(response(b"{}", 3), hang=True) as port:
                late = await failure_of_get(hasty, method, url.format(port))
            assert (late.detail, late.permanent) == ("The server did not respond in time.", False)
