"""Refusals over gRPC, row by row: the code, whether a retry may succeed, and what is counted."""

import gzip
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import grpc
import pytest
from grpc import StatusCode

from chassis.auth.guards import AuthGuards
from chassis.clickhouse import StoreUnavailable
from control.identity import organization_repository
from gateway.admission.concurrency import ConcurrencyLimiter
from gateway.export.decoding import Decoder
from tests.gateway.conftest import RecordingStore
from tests.gateway.grpc.conftest import LOGS, TRACES, Client, Connect
from tests.gateway.otlp import log, logs, span, traces

SMALL = {"max_wire_bytes": 20_000, "max_body_bytes": 40_000, "max_items": 20, "max_members": 3}
RETRIED = {StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED}  # the latter with RetryInfo
SPAN = traces(span())


class Row(NamedTuple):
    """A call, and how it ends. `retry`: whether it has a RetryInfo. `reason`: what is counted."""

    code: StatusCode
    text: str
    reason: str
    message: bytes = SPAN
    metadata: Callable[[Client], tuple[tuple[str, str], ...]] | None = None


def nested(depth: int) -> bytes:
    """A resource attribute of so many nested arrays."""
    value = b"\x0a\x00"
    for _ in range(depth):
        value = field(5, field(1, value))
    attribute = field(1, b"k") + field(2, value)
    return field(1, field(1, field(1, attribute)) + field(2, field(2, span().SerializeToString())))


def field(number: int, value: bytes) -> bytes:
    """A field with its length, of which there are two bytes if one is too few."""
    size = len(value)
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))
    return bytes((number << 3 | 2,)) + length + value


def dsn(client: Client) -> tuple[tuple[str, str], ...]:
    """A DSN of one project's key and another project's id."""
    mine, other = client.gateway.projects
    return (("authorization", f"DSN http://{mine.key}@host/{other.id}"),)


def two_keys(client: Client) -> tuple[tuple[str, str], ...]:
    return (*client.key(0), ("authorization", f"DSN http://{client.gateway.projects[1].key}@host/1"))


ROWS = {
    "no key": Row(StatusCode.UNAUTHENTICATED, "A project key is required.", "unauthorized", metadata=lambda _: ()),
    "no such key": Row(
        StatusCode.UNAUTHENTICATED,
        "The project key is not valid.",
        "unauthorized",
        metadata=lambda _: (("x-legacy-auth", f"Legacy legacy_key={'0' * 32}"),),
    ),
    "malformed": Row(
        StatusCode.UNAUTHENTICATED,
        "The X-Legacy-Auth header must have the form: Legacy legacy_key=<key>.",
        "unauthorized",
        metadata=lambda _: (("x-legacy-auth", "Bearer x"),),
    ),
    "two keys": Row(
        StatusCode.UNAUTHENTICATED,
        "The request contains different project keys; send one.",
        "unauthorized",
        metadata=two_keys,
    ),
    "another project": Row(
        StatusCode.PERMISSION_DENIED,
        "The project key does not belong to the project in the request.",
        "forbidden",
        metadata=dsn,
    ),
    "not protobuf": Row(StatusCode.INVALID_ARGUMENT, "", "malformed", b"\xff\xff\xff"),
    "too deep": Row(StatusCode.INVALID_ARGUMENT, "", "too_deep", nested(40)),
    "too many items": Row(StatusCode.INVALID_ARGUMENT, "", "too_many_items", traces(*[span(1)] * 21)),
    "corrupt gzip": Row(
        StatusCode.INVALID_ARGUMENT, "The body is not valid gzip.", "bad_request", b"\x1f\x8b\x08\x00" + b"x" * 20
    ),
    "truncated gzip": Row(
        StatusCode.INVALID_ARGUMENT, "The gzip body is truncated.", "bad_request", gzip.compress(SPAN)[:-9]
    ),
    "too large decompressed": Row(
        StatusCode.INVALID_ARGUMENT,
        "The decompressed body is larger than 40000 bytes.",
        "payload_too_large",
        gzip.compress(bytes(40_001)),
    ),
    "too many gzip members": Row(
        StatusCode.INVALID_ARGUMENT,
        "The gzip body has more than 3 members.",
        "payload_too_large",
        gzip.compress(b"") * 4,
    ),
}


@pytest.mark.parametrize("name", ROWS)
async def test_bad_requests_get_a_code_that_no_client_retries(connect: Connect, name: str) -> None:
    row = ROWS[name]
    client = await connect(RecordingStore(), **SMALL)
    ended = await client.call(TRACES, row.message, None if row.metadata is None else row.metadata(client))
    assert (ended.code, ended.retry_s) == (row.code, None)
    assert ended.code not in RETRIED
    assert ended.message
    assert row.text in ("", ended.message)
    assert ended.trailing is not None
    assert len(ended.trailing["x-request-id"]) == 32
    assert client.gateway.metric("requests_total", signal="traces", outcome="refused", reason=row.reason) == 1


async def test_a_message_above_the_wire_cap_is_refused_before_it_is_received(connect: Connect) -> None:
    """By gRPC itself, with the code that OTLP names for it; without RetryInfo no client retries it."""
    client = await connect(RecordingStore(), **SMALL)
    ended = await client.call(TRACES, bytes(20_001))
    assert (ended.code, ended.retry_s, ended.status) == (StatusCode.RESOURCE_EXHAUSTED, None, None)
    assert (await client.call(TRACES, SPAN)).code is StatusCode.OK


async def test_deflate_is_not_taken(connect: Connect) -> None:
    client = await connect(RecordingStore())
    ended = await client.call(TRACES, SPAN * 20, compression=grpc.Compression.Deflate)
    assert ended.code is StatusCode.UNIMPLEMENTED


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
        organization = await organization_repository.find_organization(connection, "acme")
        assert organization is not None
        await organization_repository.set_quota(connection, organization.id, 2)
    client = await connect(RecordingStore())
    too_many = await client.call(TRACES, traces(*[span(1)] * 3))
    assert "2 items remain, fewer than the 3 of the request." in too_many.message
    assert (await client.call(TRACES, traces(span(1), span(2)))).code is StatusCode.OK
    used_up = await client.call(TRACES, SPAN)
    assert "It is used up until the next month begins." in used_up.message
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


async def test_a_trusted_proxy_says_whose_failures_they_are(connect: Connect) -> None:
    client = await connect(RecordingStore(), failed_key_rate=1, trusted_proxies=("127.0.0.1",))
    codes = []
    for address in ("203.0.113.1", "203.0.113.1", "203.0.113.2"):
        unknown = (("x-legacy-auth", f"Legacy legacy_key={'0' * 32}"), ("x-forwarded-for", address))
        codes.append((await client.call(TRACES, SPAN, unknown)).code)
    assert codes == [StatusCode.UNAUTHENTICATED, StatusCode.RESOURCE_EXHAUSTED, StatusCode.UNAUTHENTICATED]


async def test_an_address_with_too_many_failures_is_refused_for_unknown_keys_alone(connect: Connect) -> None:
    client = await connect(RecordingStore(), failed_key_rate=2)
    assert (await client.call(TRACES, SPAN)).code is StatusCode.OK
    unknown = (("x-legacy-auth", f"Legacy legacy_key={'0' * 32}"),)
    codes = [(await client.call(TRACES, SPAN, unknown)).code for _ in range(3)]
    assert codes == [StatusCode.UNAUTHENTICATED] * 2 + [StatusCode.RESOURCE_EXHAUSTED]
    assert (await client.call(TRACES, SPAN)).code is StatusCode.OK
