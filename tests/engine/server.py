"""ClickHouse's HTTP interface in front of the embedded engine, as far as clickhouse-connect, Sluice and agents use it.

    GET|POST /          authenticate -> read, inflate -> one statement -> run on a thread -> answer, compressed if asked
    GET      /ping      Ok.

A parameter of the URL that is not the interface's own is a setting. What this does not imitate is refused with code 48
instead of being done otherwise: sessions, external data, answers in ClickHouse's own compression.
"""

import asyncio
import base64
import binascii
import hmac
import json
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from aiohttp import web

from tests.engine import compression, statements
from tests.engine.embedded import Call, Embedded, EngineError, Result

THREADS: Final = 64  # statements at once
MAX_BODY: Final = 2**30
MAX_FIELD: Final = 128 * 1024 + 1  # http_max_field_value_size: a value in the URL or a form
TRUE: Final = ("1", "true")

# Parameters of the interface that are no settings; those it does not imitate are refused below.
_OWN: Final = frozenset(
    (
        *("query", "database", "default_format", "user", "password", "quota_key", "query_id", "role", "stacktrace"),
        *("compress", "decompress", "buffer_size", "wait_end_of_query", "client_protocol_version"),
        *("session_id", "session_timeout", "session_check", "close_session"),
    )
)
_NOT_HERE: Final = ("session_id", "compress", "role")

# exceptionCodeToHTTPStatus of ClickHouse; anything else is 500.
_STATUS: Final[Mapping[int, int]] = {
    **dict.fromkeys((6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321), 400),
    **dict.fromkeys((376, 427, 441, 675, 676), 400),
    194: 401,
    **dict.fromkeys((192, 193, 497, 512, 516), 403),
    **dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511), 404),
    159: 408,
    381: 411,
    229: 413,
    779: 415,
    48: 501,
    **dict.fromkeys((76, 209, 439), 503),
}


class User(NamedTuple):
    """Who may ask, and the settings of their profile."""

    password: str
    profile: Mapping[str, str] = {}


class Interface:
    """The handlers over one engine."""

    def __init__(self, engine: Embedded, users: Mapping[str, User]) -> None:
        self._engine = engine
        self._users = users
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="engine")

    def application(self) -> web.Application:
        """Its routes."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_get("/ping", self.ping)
        app.router.add_route("*", "/", self.ask)
        return app

    def close(self) -> None:
        """Wait for running statements."""
        self._threads.shutdown(wait=True)

    async def ping(self, _request: web.Request) -> web.Response:
        """Whether the server lives; open to anyone."""
        return web.Response(text="Ok.\n")

    async def ask(self, request: web.Request) -> web.Response:
        """Run a statement, or say what is wrong with it as ClickHouse does."""
        query_id = request.query.get("query_id") or str(uuid.uuid4())
        headers = {"X-ClickHouse-Server-Display-Name": "engine", "X-ClickHouse-Query-Id": query_id}
        if request.method == "GET" and not request.query_string:
            return web.Response(text="Ok.\n", headers=headers)
        try:
            result = await self._run(request)
        except EngineError as error:
            headers["X-ClickHouse-Exception-Code"] = str(error.code)
            text = f"{error.text} (version {self._engine.version} (official build))\n"
            return web.Response(status=_STATUS.get(error.code, 500), text=text, headers=headers)
        headers["X-ClickHouse-Summary"] = json.dumps({name: str(value) for name, value in result.summary.items()})
        headers["X-ClickHouse-Timezone"] = "UTC"
        if result.format is not None:
            headers["X-ClickHouse-Format"] = result.format
        body, encoding = result.body, None
        if request.query.get("enable_http_compression", "0") in TRUE:
            body, encoding = compression.compress(body, request.headers.get("Accept-Encoding", ""))
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        return web.Response(body=body, headers=headers)

    async def _run(self, request: web.Request) -> Result:
        profile = self._authenticate(request)
        fields = {name: str(value) for name, value in request.query.items()}
        body = await _body(request, fields)
        for name in _NOT_HERE:
            if fields.get(name, "0") not in ("0", ""):
                raise EngineError(48, f"Code: 48. DB::Exception: {name} is not imitated here. (NOT_IMPLEMENTED)")
        call = _call(request, fields, body, profile)
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._engine.run, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:  # the client went away
            running.add_done_callback(_forget)
            if _cancelled_with_its_client(call):
                await asyncio.get_running_loop().run_in_executor(None, self._engine.kill, call.settings["log_comment"])
            raise

    def _authenticate(self, request: web.Request) -> Mapping[str, str]:
        name, password = _credentials(request)
        user = self._users.get(name)
        if user is None or not hmac.compare_digest(user.password.encode(), password.encode()):
            raise EngineError(
                516,
                f"Code: 516. DB::Exception: {name}: Authentication failed: password is incorrect, or there is no user"
                " with such name. (AUTHENTICATION_FAILED)",
            )
        return user.profile


def _forget(running: asyncio.Future[Result]) -> None:
    """What became of a call is for its client, who is gone."""
    if not running.cancelled():
        running.exception()


def _credentials(request: web.Request) -> tuple[str, str]:
    if "X-ClickHouse-User" in request.headers:
        return request.headers["X-ClickHouse-User"], request.headers.get("X-ClickHouse-Key", "")
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return "", ""
        return name, password
    return request.query.get("user", "default"), request.query.get("password", "")


async def _body(request: web.Request, fields: dict[str, str]) -> bytes:
    """The body inflated; that of a form goes to `fields`. A client that goes away in the middle ends the request."""
    if request.content_type == "multipart/form-data":
        form = await request.post()
        for name, value in form.items():
            if not isinstance(value, str):
                raise EngineError(48, "Code: 48. DB::Exception: external data is not imitated here. (NOT_IMPLEMENTED)")
            fields[name] = value
        body = b""
    else:
        body = await request.read()
    if any(len(value.encode("utf-8", "surrogateescape")) > MAX_FIELD for value in fields.values()):
        raise EngineError(
            1000, "Code: 1000. DB::Exception: HTML Form Exception: Field value too long. (POCO_EXCEPTION)"
        )
    try:
        body = compression.inflate(body, request.headers.get("Content-Encoding", ""))
        return compression.inflate_blocks(body) if fields.get("decompress", "0") in TRUE else body
    except compression.Incompressible as error:
        raise EngineError(271, f"Code: 271. DB::Exception: {error}. (CANNOT_DECOMPRESS)") from error


def _call(request: web.Request, fields: Mapping[str, str], body: bytes, profile: Mapping[str, str]) -> Call:
    try:
        statement = statements.parse(fields.get("query", ""), body)
    except statements.SyntaxFault as error:
        raise EngineError(62, f"Code: 62. DB::Exception: {error}. (SYNTAX_ERROR)") from error
    except UnicodeDecodeError as error:
        raise EngineError(62, f"Code: 62. DB::Exception: Syntax error: {error}. (SYNTAX_ERROR)") from error
    given = {name: value for name, value in fields.items() if name not in _OWN and name}
    if request.method == "GET" and "readonly" not in profile:
        profile = {**profile, "readonly": "2"}
    return Call(
        statement,
        database=request.headers.get("X-ClickHouse-Database") or fields.get("database", ""),
        profile=profile,
        settings={name: value for name, value in given.items() if not name.startswith("param_")},
        parameters={name.removeprefix("param_"): value for name, value in given.items() if name.startswith("param_")},
        protocol=int(fields.get("client_protocol_version", "0")),
        default_format=(request.headers.get("X-ClickHouse-Format") or fields.get("default_format") or "TabSeparated"),
    )


def _cancelled_with_its_client(call: Call) -> bool:
    """Whether a server would have noticed: reads only, and where the setting says so. The engine drops query ids, so
    what has no comment of its own runs on.
    """
    return (
        call.settings.get("cancel_http_readonly_queries_on_client_close", "0") in TRUE
        and {**call.settings, **call.profile}.get("readonly", "0") != "0"
        and "log_comment" in call.settings
    )
