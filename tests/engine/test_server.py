"""The server that stands for ClickHouse in tests, held to what ClickHouse's HTTP interface does."""

import asyncio
import base64
import gc
import gzip
import json
import struct
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

import lz4.block  # type: ignore[import-untyped]  # lz4 has no types
import lz4.frame  # type: ignore[import-untyped]
import pytest
from aiohttp import web

from tests.engine import statements
from tests.engine.embedded import Call, Embedded, EngineError, Result
from tests.engine.process import PASSWORD, Engine
from tests.engine.server import Interface, User
from tests.engine.statements import Statement


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str | None:
        return self.headers.get("X-ClickHouse-Exception-Code")


LOGIN = {"X-ClickHouse-User": "sluice", "X-ClickHouse-Key": PASSWORD}


def ask(engine: Engine, body: bytes | None = None, headers: Mapping[str, str] = LOGIN, /, **parameters: str) -> Answer:
    url = f"http://127.0.0.1:{engine.port}/?{urllib.parse.urlencode(parameters)}"
    request = urllib.request.Request(url, data=body, headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Answer(answer.status, dict(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def framed(data: bytes, method: int, packed: bytes) -> bytes:
    """A block of ClickHouse's own compression; nobody looks at the checksum."""
    return bytes(16) + struct.pack("<BII", method, 9 + len(packed), len(data)) + packed


def test_a_statement_may_be_in_the_url_or_in_the_body(engine: Engine) -> None:
    assert ask(engine, query="SELECT 1").body == b"1\n"
    assert ask(engine, b"SELECT 2").body == b"2\n"
    assert ask(engine, b"3", query="SELECT").body == b"3\n"
    answer = ask(engine, b"SELECT {a:String} AS a", param_a="x", default_format="JSONCompactEachRow")
    assert (answer.body, answer.headers["X-ClickHouse-Format"]) == (b'["x"]\n', "JSONCompactEachRow")


def test_who_may_ask(engine: Engine) -> None:
    assert ask(engine, b"SELECT 1", {}, user="sluice", password=PASSWORD).status == 200
    for headers in (LOGIN, basic("sluice", PASSWORD)):
        assert ask(engine, b"SELECT 1", headers).status == 200
    for headers in ({"X-ClickHouse-User": "sluice"}, basic("sluice", "wrong"), basic("nobody", PASSWORD), {}):
        answer = ask(engine, b"SELECT 1", headers)
        assert (answer.status, answer.code) == (403, "516")
        assert answer.body.startswith(b"Code: 516. DB::Exception: ")


REFUSALS: list[tuple[str, dict[str, str], int, str]] = [
    ("SELECT", {}, 400, "62"),
    ("SELECT 1; SELECT 2", {}, 400, "62"),
    ("SELECT * FROM nowhere", {}, 404, "60"),
    ("SELECT 1", {"database": "nowhere"}, 404, "81"),
    ("SELECT 1", {"of_a_later_release": "1"}, 404, "115"),
    ("SELECT sleepEachRow(1) FROM numbers(3)", {"max_execution_time": "0.1"}, 408, "159"),
    ("CREATE TABLE t (a UInt8) ENGINE = Memory", {"readonly": "1"}, 500, "164"),
    ("SELECT 1 SETTINGS max_threads = 77", {"readonly": "1"}, 500, "164"),
    ("SELECT 1", {"session_id": "s"}, 501, "48"),
    ("SELECT 1", {"param_a": "x" * (128 * 1024 + 2)}, 500, "1000"),
]


def test_refusals(engine: Engine) -> None:
    for statement, parameters, status, code in REFUSALS:
        answer = ask(engine, statement.encode(), **parameters)
        assert (answer.status, answer.code) == (status, code), answer.body
        assert answer.body.startswith(f"Code: {code}. DB::Exception: ".encode())
        assert answer.body.endswith(b" (official build))\n")


def test_settings_end_with_their_request(engine: Engine) -> None:
    setting = "SELECT getSetting('max_threads'), getSetting('readonly')"
    assert ask(engine, setting.encode(), max_threads="3", readonly="1").body == b"3\t1\n"
    assert ask(engine, setting.encode(), readonly="0").body != b"3\t1\n"
    assert ask(engine, query=setting, max_threads="3").body == b"3\t2\n"  # GET only reads


def test_users_whose_profile_only_reads(engine: Engine) -> None:
    reader, frozen = basic("reader", "reader"), basic("frozen", "frozen")
    assert ask(engine, b"SELECT getSetting('max_threads')", reader, max_threads="3").body == b"3\n"
    answer = ask(engine, b"SELECT 1", frozen, max_threads="3")
    assert answer.code == "164"
    assert b"Cannot modify 'max_threads' setting in readonly mode" in answer.body
    for user in (reader, frozen):
        assert ask(engine, b"CREATE DATABASE made", user).code == "164"


def test_data_of_an_insert(engine: Engine) -> None:
    one, two = b'{"n":1}\n', b'{"n":2}\n'
    blocks = framed(one, 0x82, lz4.block.compress(one, store_size=False)) + framed(two, 0x02, two)
    for body, headers, parameters in (
        (one + two, {}, {}),
        (gzip.compress(one + two), {"Content-Encoding": "gzip"}, {}),
        (lz4.frame.compress(one + two), {"Content-Encoding": "lz4"}, {}),
        (blocks, {}, {"decompress": "1"}),
    ):
        ask(engine, b"CREATE OR REPLACE TABLE default.inserted (n UInt64) ENGINE = MergeTree ORDER BY n")
        statement = "INSERT INTO default.inserted (n) FORMAT JSONEachRow"
        answer = ask(engine, body, {**LOGIN, **headers}, query=statement, **parameters)
        assert answer.status == 200, answer.body
        assert json.loads(answer.headers["X-ClickHouse-Summary"])["written_rows"] == "2"
        assert ask(engine, b"SELECT n FROM default.inserted ORDER BY n").body == b"1\n2\n"


def test_answers_are_compressed_where_asked(engine: Engine) -> None:
    headers = {**LOGIN, "Accept-Encoding": "gzip"}
    answer = ask(engine, b"SELECT 1", headers, enable_http_compression="1")
    assert (answer.headers["Content-Encoding"], gzip.decompress(answer.body)) == ("gzip", b"1\n")
    assert ask(engine, b"SELECT 1", headers).body == b"1\n"


def test_native_blocks_begin_with_their_info_for_newer_clients(engine: Engine) -> None:
    plain = ask(engine, b"SELECT 1 AS a FORMAT Native").body
    assert plain == b"\x01\x01\x01a\x05UInt8\x01"
    informed = ask(engine, b"SELECT 1 AS a FORMAT Native", client_protocol_version="54405").body
    assert informed == b"\x01\x00\x02\xff\xff\xff\xff\x00" + plain


@pytest.mark.parametrize(
    ("in_url", "body", "expected"),
    [
        ("", b"SELECT ';' -- ; x", Statement("SELECT ';' -- ; x", None, None, answers=True)),
        ("", b"/* ; */ select 1 format CSV ;", Statement("/* ; */ select 1 format CSV", "CSV", None, answers=True)),
        ("INSERT INTO t (`a`) FORMAT Native", b"\x01;", Statement("INSERT INTO t (`a`) ", "Native", b"\x01;", False)),
        ("", b"INSERT INTO t FORMAT TSV\n1\n", Statement("INSERT INTO t ", "TSV", b"1\n", answers=False)),
        ("", b"INSERT INTO t VALUES (1)", Statement("INSERT INTO t VALUES (1)", None, None, answers=False)),
        ("", b"INSERT INTO t SELECT 1", Statement("INSERT INTO t SELECT 1", None, None, answers=False)),
    ],
)
def test_statements_are_taken_apart(in_url: str, body: bytes, expected: Statement) -> None:
    found = statements.parse(in_url, body)
    assert found._replace(text=found.text.strip()) == expected._replace(text=expected.text.strip())


class Endless(Embedded):
    """An engine whose statements end when they are killed."""

    def __init__(self) -> None:
        self.version = "0"
        self.begun, self._killed = threading.Event(), threading.Event()

    def run(self, _call: Call) -> Result:
        self.begun.set()
        self._killed.wait(20)
        raise EngineError(394, "Code: 394. DB::Exception: Query was cancelled. (QUERY_WAS_CANCELLED)")

    def kill(self, _comment: str) -> None:
        self._killed.set()


async def test_a_call_whose_client_is_gone_ends_without_a_word() -> None:
    engine, told = Endless(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    interface = Interface(engine, {"default": User("")})
    runner = web.AppRunner(interface.application(), handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    _, client = await asyncio.open_connection(*runner.addresses[0])
    settings = "readonly=1&log_comment=a&cancel_http_readonly_queries_on_client_close=1"
    client.write(f"POST /?query=SELECT+1&{settings} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
    await asyncio.to_thread(engine.begun.wait, 20)
    client.close()
    await asyncio.to_thread(interface.close)  # when the statement has ended
    await runner.cleanup()
    gc.collect()
    assert told == []
