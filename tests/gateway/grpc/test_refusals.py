"""Refusals over gRPC, row by row: the code, whether a retry may succeed, and what is counted."""

import gzip
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import grpc
import pytest
from grpc import StatusCode

from chassis.auth.guards import AuthGuards
from chassis.clickhouse import StoreUnavailable
from control.identity.organizations import organization_store
from gateway.admission.concurrency import ConcurrencyLimiter
from gateway.export import Decoder
from proto.otlp.protobuf_writer import bytes_field
from tests.gateway.conftest import RecordingStore
from tests.gateway.grpc.conftest import LOGS, TRACES, Client, Connect, Metadata
from tests.gateway.otlp import log, logs, span, traces

SMALL = {"max_wire_bytes": 20_000, "max_body_bytes": 40_000, "max_items": 20, "max_members": 3}
RETRIED = {StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED}  # the latter with RetryInfo
SPAN = traces(span())


class Row(NamedTuple):
    """A call, and how it ends. `text`: its message, if that is ours. `reason`: what is counted."""

    text: str
    reason: str
    message: bytes = SPAN
    metadata: Callable[[Client], Metadata] = Client.key


def nested(depth: int) -> bytes:
    """A resource attribute of so many nested arrays."""
    value = b"\x0a\x00"
    for _ in range(depth):
        value = bytes_field(5, bytes_field(1, value))
    attribute = bytes_field(1, b"k") + bytes_field(2, value)
    spans = bytes_field(2, bytes_field(2, span().SerializeToString()))
    return bytes_field(1, bytes_field(1, bytes_field(1, attribute)) + spans)


def legacy(value: str) -> Callable[[Client], Metadata]:
    return lambda _client: (("x-legacy-auth", value),)


def dsn(client: Client, project_id: int) -> Metadata:
    """A DSN of one project's key and the id of a project."""
    return (("authorization", f"DSN http://{client.gateway.projects[0].key}@host/{project_id}"),)


def two_keys(client: Client) -> Metadata:
    return (*client.key(1), *dsn(client, 1))


NOT_LEGACY: Final = "The X-Legacy-Auth header must have the form: Legacy legacy_key=<key>."
ANOTHER: Final = "The project key does not belong to the project in the request."
ROWS: Final[dict[StatusCode, list[Row]]] = {
    StatusCode.UNAUTHENTICATED: [
        Row("A project key is required.", "unauthorized", metadata=lambda _: ()),
        Row("The project key is not valid.", "unauthorized", metadata=legacy(f"Legacy legacy_key={'0' * 32}")),
        Row(NOT_LEGACY, "unauthorized", metadata=legacy("Bearer x")),
        Row("The request contains different project keys. Send one key.", "unauthorized", metadata=two_keys),
    ],
    StatusCode.PERMISSION_DENIED: [
        Row(ANOTHER, "forbidden", metadata=lambda client: dsn(client, client.gateway.projects[1].id))
    ],
    StatusCode.INVALID_ARGUMENT: [
        Row("", "malformed", b"\xff\xff\xff"),
        Row("", "too_deep", nested(40)),
        Row("", "too_many_items", traces(*[span(1)] * 21)),
        Row("The body is not valid gzip.", "bad_request", b"\x1f\x8b\x08\x00" + b"x" * 20),
        Row("The gzip body is truncated.", "bad_request", gzip.compress(SPAN)[:-9]),
        Row("The decompressed body is larger than 40000 bytes.", "payload_too_large", gzip.compress(bytes(40_001))),
        Row("The gzip body has more than 3 members.", "payload_too_large", gzip.compress(b"") * 4),
    ],
}


async def test_bad_requests_get_a_code_that_no_client_retries(connect: Connect) -> None:
    client = await connect(RecordingStore(), **SMALL)
    counted: Counter[str] = Counter()
    for code, row in ((code, row) for code, rows in ROWS.items() for row in rows):
        ended = await client.call(TRACES, row.message, row.metadata(client))
        assert (ended.code, ended.retry_s) == (code, None), row
        assert ended.code not in RETRIED
        assert ended.message
        assert row.text in ("", ended.message)
        assert ended.trailing is not None
        assert len(ended.trailing["x-request-id"]) == 32
        counted[row.reason] += 1
        refused = {"signal": "traces", "outcome": "refused", "reason": row.reason}
        assert client.gateway.metric("requests_total", **refused) == counted[row.reason], row


async def test_a_message_above_the_wire_cap_is_refused_before_it_is_received(connect: Connect) -> None:
    """By gRPC itself, with the code that OTLP names for it; without RetryInfo no client retries it. So is deflate."""
    client = await connect(RecordingStore(), **SMALL)
    ended = await client.call(TRACES, bytes(20_001))
    assert (ended.code, ended.retry_s, ended.status) == (StatusCode.RESOURCE_EXHAUSTED, None, None)
    ended = await client.call(TRACES, SPAN * 20, compression=grpc.Compression.Deflate)
    assert ended.code is StatusCode.UNIMPLEMENTED
    assert (await client.call(TRACES, SPAN)).code is StatusCode.OK


async def test_over_its_rate_a_key_gets_the_time_until_the_next_permit(connect: Connect) -> None:
    client = await connect(RecordingStore(), otlp_rate=1, otlp_burst=1)
    assert (await client.call(TRACES, SPAN)).code is StatusCode.OK
    for cached in (False, True):
        ended = await client.call(LOGS, logs(log()), (*client.key(), ("x-request-id", f"mine-{cached}")))
        assert (ended.code, ended.retry_s) == (StatusCode.RESOURCE_EXHAUSTED, 1)
        assert ended.trailing is not None
        assert ended.trailing["x-request-id"] == f"mine-{cached}"
    assert client.gateway.metric("requests_total", signal="logs", reason="rate_limited") == 2
    assert (await client.call(TRACES, SPAN, client.key(1))).code is StatusCode.OK


async def test_a_used_up_quota_gets_the_rest_of_the_month(connect: Connect, checks: AuthGuards) -> None:
    async with checks.database.write() as connection:
        organization = await organization_store.find_organization(connection, "acme")
        assert organization is not None
        await organization_store.set_quota(connection, organization.id, 2)
    client = await connect(RecordingStore())
    too_many = await client.call(TRACES, traces(*[span(1)] * 3))
    assert "2 items remain, but the request has 3 items." in too_many.message
    assert (await client.call(TRACES, traces(span(1), span(2)))).code is StatusCode.OK
    used_up = await client.call(TRACES, SPAN)
    assert "It is used up. The next month has a new quota." in used_up.message
    for ended in (too_many, used_up):
        assert ended.code is StatusCode.RESOURCE_EXHAUSTED
        assert ended.retry_s is not None
        assert 0 < ended.retry_s <= 31 * 86_400
    assert client.gateway.metric("requests_total", reason="quota_exceeded") == 2


async def overloaded(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(ConcurrencyLimiter, "try_acquire", lambda _self, _key: None)
    return await connect(RecordingStore())


async def full_journal(connect: Connect, _monkeypatch: pytest.MonkeyPatch) -> Client:
    return await connect(RecordingStore(), journal_min_free_bytes=2**60)


async def without_clickhouse(connect: Connect, _monkeypatch: pytest.MonkeyPatch) -> Client:
    return await connect(RecordingStore(away=StoreUnavailable("away")), durability="store", ack_deadline_s=0.1)


@pytest.mark.parametrize(
    ("start", "reason"),
    [(overloaded, "overloaded"), (full_journal, "service_unavailable"), (without_clickhouse, "service_unavailable")],
)
async def test_what_may_succeed_later_is_unavailable_with_retry_info(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[[Connect, pytest.MonkeyPatch], Awaitable[Client]],
    reason: str,
) -> None:
    client = await start(connect, monkeypatch)
    ended = await client.call(TRACES, SPAN)
    assert ended.code is StatusCode.UNAVAILABLE
    assert ended.retry_s is not None
    assert 1 <= ended.retry_s <= 5
    assert client.gateway.metric("requests_total", reason=reason) == 1


async def test_a_fault_of_ours_is_internal_and_says_nothing_of_it(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_arguments: object) -> None:
        raise RuntimeError("the secret of the house")

    client = await connect(RecordingStore())
    monkeypatch.setattr(Decoder, "decode", broken)
    ended = await client.call(TRACES, SPAN)
    assert (ended.code, ended.message, ended.retry_s) == (StatusCode.INTERNAL, "An internal error occurred.", None)
    assert client.gateway.metric("requests_total", reason="internal_error") == 1


async def test_failed_keys_are_counted_by_address_and_refused_for_unknown_keys_alone(connect: Connect) -> None:
    """A trusted proxy says whose failures they are."""
    unknown = ("x-legacy-auth", f"Legacy legacy_key={'0' * 32}")
    client = await connect(RecordingStore(), failed_key_rate=2, trusted_proxies=("127.0.0.1",))
    assert (await client.call(TRACES, SPAN)).code is StatusCode.OK
    codes = [
        (await client.call(TRACES, SPAN, (unknown, ("x-forwarded-for", f"203.0.113.{address}")))).code
        for address in (1, 1, 1, 2)
    ]
    failed, refused = StatusCode.UNAUTHENTICATED, StatusCode.RESOURCE_EXHAUSTED
    assert codes == [failed, failed, refused, failed]
    assert (await client.call(TRACES, SPAN, (*client.key(), ("x-forwarded-for", "203.0.113.1")))).code is StatusCode.OK
