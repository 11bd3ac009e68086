"""Many requests of one user, and clients that do not take their answers: what they and everybody else notice."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from typing import Final

import pytest
from msgspec import structs

from query.settings import QuerySettings
from tests.query.conftest import FOREIGN_PATH, HOUR, MS, NOW, ONE_ENGINE, SECOND, UNLIMITED, Loader, span
from tests.query.under_load import Client, Counted, listened

pytestmark = ONE_ENGINE

ROWS: Final = 200
TEXT: Final = 13_000  # of each attribute; values are cut at 16 KiB
KEYS: Final = ("one", "two", "three")
ANSWER: Final = ROWS * TEXT * len(KEYS)  # bytes, and some more
ROOM: Final = 4 * ANSWER + 2**20  # of which a user has half: two answers


@pytest.fixture
async def store(clickhouse_url: str, database: str, loader: Loader) -> Counted:
    """Spans whose page is larger than what the buffers of a connection hold."""
    for first in range(0, ROWS, 20):
        await loader.spans(
            *(
                span(n + 1, start=NOW - 60 * SECOND - n * MS, attributes=dict.fromkeys(KEYS, "x" * TEXT))
                for n in range(first, first + 20)
            )
        )
    return Counted(clickhouse_url, database)


def large(number: int) -> str:
    """A page of all spans, no two of them alike."""
    return f"/spans?limit={ROWS}&from={NOW - HOUR - number}&to={NOW}"


async def idle(client: Client, stack: AsyncExitStack, number: int) -> None:
    """So many connections of as many agents of one user, which take nothing; they have filled the user's share."""
    for n in range(number):
        stack.enter_context(await client.open(large(n), f"agent-{n}"))
    await client.until("send_buffer_bytes", lambda value: value >= 2 * ANSWER)


async def read_steadily(connection: socket.socket) -> int:
    """A piece now and then; how much came until the connection was closed."""
    loop, received = asyncio.get_running_loop(), 0
    try:
        while piece := await loop.sock_recv(connection, 2**16):
            received += len(piece)
            await asyncio.sleep(0.01)
    except ConnectionResetError:
        pass
    return received


async def test_a_hundred_requests_at_once_of_one_token_are_all_answered(store: Counted) -> None:
    """Each with a window of its own, in which so many spans began."""
    bodies = [{"fn": "count", "from": str(NOW - 60 * SECOND - n * MS), "to": str(NOW)} for n in range(100)]
    async with listened(store, QuerySettings()) as client:
        answers = await asyncio.gather(*(client.post("/spans/aggregate", body) for body in bodies))
        assert [status for status, _ in answers] == [200] * 100
        assert [json.loads(body)["groups"][0]["count"] for _, body in answers] == list(range(1, 101))
        assert await client.metric("queue_seconds_count") == 100


async def test_one_token_has_all_handles_but_one_and_who_comes_has_that_at_once(store: Counted) -> None:
    async with listened(store, QuerySettings(handles=4)) as client:
        store.may_go_on.clear()
        mine = [asyncio.create_task(client.get(large(n), token=f"agent-{n}")) for n in range(8)]
        await client.until("reads_running", lambda value: value == 3)
        assert await client.metric("handles") == 4
        await client.until("requests_waiting", lambda value: value == 4)
        other = asyncio.create_task(client.get("/spans", token="colleague"))
        await client.until("reads_waiting", lambda value: value == 2)
        foreign = asyncio.create_task(client.get("/spans", token="foreign", base=FOREIGN_PATH))
        await client.until("reads_running", lambda value: value == 4)
        assert store.priorities == [2, 3, 3, 2], "the first, which was alone, and that of somebody else go first"
        store.may_go_on.set()
        assert {status for status, _ in await asyncio.gather(other, foreign, *mine)} == {200}


async def test_connections_that_take_nothing_deny_nobody_else_an_answer(store: Counted) -> None:
    """Eight, of agents that one member owns."""
    async with listened(store, QuerySettings(max_sending_bytes=ROOM, stall_s=600)) as client, AsyncExitStack() as stack:
        await idle(client, stack, 8)
        await client.until("requests_waiting", lambda value: value == 2)
        assert (await client.get("/spans", token="foreign", base=FOREIGN_PATH))[0] == 200
        status, body = await client.get("/spans?limit=1", token="colleague")
        assert (status, len(json.loads(body)["data"])) == (200, 1)


async def test_who_takes_nothing_is_cut_where_an_answer_waits_for_his_room_and_only_he(store: Counted) -> None:
    settings = QuerySettings(max_sending_bytes=ROOM, stall_s=1)
    async with listened(store, settings) as client, AsyncExitStack() as stack:
        steady = stack.enter_context(await client.open(large(100), "agent-100"))
        await client.until("send_buffer_bytes", lambda value: value >= ANSWER)
        reading = asyncio.create_task(read_steadily(steady))
        await idle(client, stack, 4)
        status, body = await client.get(large(101))
        assert (status, len(json.loads(body)["data"])) == (200, ROWS)
        assert await reading >= ANSWER
        assert await client.metric("slow_clients_closed_total") >= 1


async def trickle(connection: socket.socket) -> None:
    """A little now and then, which frees room in the kernel, until the connection is closed."""
    loop = asyncio.get_running_loop()
    try:
        while await loop.sock_recv(connection, 2**14):
            await asyncio.sleep(0.05)
    except ConnectionResetError:
        pass


async def test_who_takes_a_little_now_and_then_is_cut_as_well(store: Counted) -> None:
    """At most 320 KB/s where 1 MB/s is asked for; a byte would be progress enough."""
    settings = QuerySettings(max_sending_bytes=ROOM, stall_s=1)
    chassis = structs.replace(UNLIMITED, send_min_rate=2**20)
    async with listened(store, settings, chassis=chassis) as client, AsyncExitStack() as stack:
        slow = [stack.enter_context(await client.open(large(n), f"agent-{n}")) for n in range(2)]
        await client.until("send_buffer_bytes", lambda value: value >= 2 * ANSWER)
        trickling = [asyncio.create_task(trickle(each)) for each in slow]
        status, body = await client.get(large(100))
        assert (status, len(json.loads(body)["data"])) == (200, ROWS)
        assert await client.metric("slow_clients_closed_total") >= 1
        for each in trickling:
            each.cancel()
        await asyncio.gather(*trickling, return_exceptions=True)


async def test_who_finds_no_room_in_time_is_refused(store: Counted) -> None:
    settings = QuerySettings(max_sending_bytes=ROOM, stall_s=600, max_wait_s=0.3)
    async with listened(store, settings) as client, AsyncExitStack() as stack:
        await idle(client, stack, 2)
        status, body = await client.get(large(100))
        assert status == 503
        assert "The send buffer is full" in json.loads(body)["error"]["message"]
        assert await client.metric('refused_requests_total{reason="send_buffer_full"}') == 1
        assert (await client.get("/spans?limit=1", token="colleague"))[0] == 200
