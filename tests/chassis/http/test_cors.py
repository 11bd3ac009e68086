"""Cross-origin answers on a port that several services share."""

from aiohttp import web

from chassis.errors import NotFound
from chassis.http.cors import Cors
from chassis.http.route import Route, cross_origin
from chassis.http.web import json_response, public
from tests.chassis.conftest import Serve

PAGE = "https://page.example"
SENDER = "https://sender.example"


async def ok(_request: web.Request) -> web.Response:
    return json_response({}, headers={"Vary": "Accept"})


async def missing(_request: web.Request) -> web.Response:
    raise NotFound


def cors(*origins: str, methods: tuple[str, ...] = ("GET",)) -> Cors:
    return Cors(frozenset(origins), methods, ("content-type",), ("x-request-id",))


READ = [Route("GET", "/read", ok, public()), Route("GET", "/read/{id}", missing, public())]
SEND = [Route("POST", "/send", ok, public())]
ROUTES = [
    *cross_origin(READ, cors(PAGE)),
    *cross_origin(SEND, cors(SENDER, methods=("POST",))),
    *cross_origin([Route("GET", "/closed", ok, public())], cors()),
]


ANSWERS = [  # status, the origin that is allowed, and what the answer varies by
    ("GET", "/read", PAGE, 200, PAGE, "Accept, Origin"),
    ("GET", "/read", SENDER, 200, None, "Accept, Origin"),
    ("GET", "/read/1", PAGE, 404, PAGE, "Origin"),
    ("PUT", "/read/1", PAGE, 405, PAGE, "Origin"),
    ("OPTIONS", "/read/1", PAGE, 204, PAGE, "Origin"),
    ("OPTIONS", "/read", SENDER, 204, None, "Origin"),
    ("POST", "/send", SENDER, 200, SENDER, "Accept, Origin"),
    ("OPTIONS", "/send", SENDER, 204, SENDER, "Origin"),
    ("GET", "/send", PAGE, 405, None, "Origin"),
    ("GET", "/closed", PAGE, 200, None, "Accept"),
    ("OPTIONS", "/closed", PAGE, 405, None, None),
    ("GET", "/livez", PAGE, 200, None, None),
    ("GET", "/nowhere", PAGE, 404, None, None),
]


async def test_each_path_admits_its_own_pages(serve: Serve) -> None:
    served = await serve(ROUTES)
    for method, path, origin, status, allowed, vary in ANSWERS:
        answered, headers, _ = await served.request(method, path, headers={"Origin": origin})
        shown = answered, headers.get("Access-Control-Allow-Origin"), headers.get("Vary")
        assert shown == (status, allowed, vary), (method, path)
        wanted = (path == "/send" and "POST") or "GET"
        assert headers.get("Access-Control-Allow-Methods") == (wanted if allowed and method == "OPTIONS" else None)


async def test_a_page_can_read_that_we_failed(serve: Serve) -> None:
    async def broken(_request: web.Request) -> web.Response:
        raise RuntimeError("boom")

    served = await serve(cross_origin([Route("GET", "/x", broken, public())], cors("*")))
    status, headers, _ = await served.get("/x", headers={"Origin": PAGE})
    assert (status, headers["Access-Control-Allow-Origin"]) == (500, "*")
    assert headers["Access-Control-Expose-Headers"] == "x-request-id"
