"""Who is refused for a limit of his own is refused again without being parsed, for as long as that is certain."""

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry, Counter

from chassis.auth.guards import AuthGuards
from chassis.auth.model import ProjectIdentity
from chassis.errors import ApiError, RateLimited, ServiceUnavailable, Unauthorized
from chassis.http.access import PROJECT
from chassis.http.preparse import RequestPreview
from chassis.limits.limiter import LimitResult
from chassis.limits.rate_limits import LIMIT_RESULT
from control.identity.organizations import organization_store
from gateway.admission import refusal_cache
from gateway.admission.quota import QuotaExceeded
from gateway.admission.refusal_cache import MAX_AGE_NS, RefusalCache
from gateway.metrics import WIRE_BYTES, Metrics, OutcomeCounters
from tests.gateway.conftest import Gateway, RecordingStore, StartGateway
from tests.gateway.otlp import JSON, PROTOBUF, span, traces

MILLISECOND = 10**6


class Stand:
    """A refusal cache without a next filter, over a clock that stands still, and what it counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ns = 0
        limited = Counter("limited", "", ("limit",), registry=self.registry)
        self.turnstile = RefusalCache(None, OutcomeCounters(Metrics(self.registry)), limited, lambda: self.ns)

    def refuse(self, key: str, error: ApiError, wait_ns: int = 10**12, wire_bytes: int = 0, known: bool = True) -> None:
        request = make_mocked_request("POST", "/v1/traces", headers={"X-Legacy-Auth": credential(key)})
        if known:
            request[PROJECT] = ProjectIdentity(7, "shop", "o", "acme", "k")
        request[LIMIT_RESULT] = LimitResult(5, 0, 1_800_000_000, wait_ns)
        request[WIRE_BYTES] = wire_bytes
        self.turnstile.add(request, error)

    def knock(self, key: str, length: int = 10, **headers: str) -> bytes | None:
        return self.turnstile.cached_refusal(glimpse(key, length, headers))

    def counted(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def credential(key: str) -> str:
    """In the shape of one, of a key of any name."""
    return f"Legacy legacy_key={hashlib.sha256(key.encode()).hexdigest()[:32]}" if key else ""


def glimpse(key: str, length: int, headers: Mapping[str, str], came: bytes = b"") -> RequestPreview:
    lines = {"X-Legacy-Auth": credential(key), "Content-Length": str(length), **headers}
    text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    found = RequestPreview.parse(f"POST /v1/traces HTTP/1.1\r\n{text}\r\n".encode() + came)
    assert found is not None
    return found


RATED = RateLimited("Too many requests.", 1)
USED_UP = QuotaExceeded("It is used up.", 1_000, close=True)


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_a_key_over_its_rate_is_refused_until_a_request_would_pass(stand: Stand) -> None:
    assert stand.knock("mine") is None
    stand.refuse("mine", RATED, wait_ns=5 * MILLISECOND)
    for stand.ns in (0, 5 * MILLISECOND - 1):
        assert (stand.knock("mine") or b"").startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert stand.knock("yours") is None
    stand.ns = 5 * MILLISECOND
    assert stand.knock("mine") is None
    refused = {"signal": "traces", "outcome": "refused", "reason": "rate_limited"}
    assert stand.counted("sluice_gateway_requests_total", **refused) == 2
    assert stand.counted("limited_total", limit="otlp") == 2


def test_of_a_body_that_much_is_counted_as_is_there(stand: Stand) -> None:
    stand.refuse("mine", RATED)
    for came in (b"", b"abc", b"x" * 10):
        assert stand.turnstile.cached_refusal(glimpse("mine", 10, {}, came)) is not None
    assert stand.counted("sluice_gateway_wire_bytes_total", signal="traces", outcome="refused") == 13


def test_a_quota_is_looked_at_every_second(stand: Stand) -> None:
    stand.refuse("mine", USED_UP)
    stand.ns = MAX_AGE_NS - 1
    assert stand.knock("mine") is not None
    stand.ns = MAX_AGE_NS
    assert stand.knock("mine") is None
    refused = {"signal": "traces", "outcome": "refused", "reason": "quota_exceeded"}
    assert stand.counted("sluice_gateway_requests_total", **refused) == 1


def test_what_is_shorter_than_what_did_not_fit_is_looked_at(stand: Stand) -> None:
    stand.refuse("mine", QuotaExceeded("3 items remain; the request has 4.", 1_000), wire_bytes=1_000)
    assert stand.knock("mine", 999) is None
    assert stand.knock("mine", 1_000) is not None


def test_nothing_else_is_remembered(stand: Stand) -> None:
    stand.refuse("mine", RATED, known=False)
    stand.refuse("mine", ServiceUnavailable("later"))
    stand.refuse("mine", Unauthorized())
    assert stand.knock("mine") is None
    stand.refuse("", RATED)
    assert stand.knock("") is None, "it would be said to everybody who has no key"


def test_what_is_unusual_is_left_to_the_skeleton(stand: Stand) -> None:
    stand.refuse("mine", RATED)
    for header in ({"Expect": "100-continue"}, {"Origin": "https://a"}, {"Connection": "close"}):
        assert stand.knock("mine", 10, **header) is None


def test_as_many_senders_are_remembered_as_there_is_room_for(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_cache, "MAX_ENTRIES", 5)
    for number in range(8):
        stand.refuse(str(number), USED_UP)
    assert [stand.knock(str(number)) is not None for number in range(8)] == [False] * 3 + [True] * 5
    stand.ns = MAX_AGE_NS
    stand.refuse("late", USED_UP)
    assert len(stand.turnstile._refusals) == 1, "what is over is dropped"


def test_without_a_next_filter_there_is_always_a_slot(stand: Stand) -> None:
    place = stand.turnstile.try_acquire(b"anyone")
    assert place is not None
    place.on_body_received()
    place.release(succeeded=True)


@pytest.fixture
async def used_up(start_gateway: StartGateway, checks: AuthGuards, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """A gateway where nothing is left of the month, which is remembered for an hour."""
    async with checks.database.write() as connection:
        organization = await organization_store.find_organization(connection, "acme")
        assert organization is not None
        await organization_store.set_quota(connection, organization.id, 1)
    gateway = await start_gateway(RecordingStore(), durability="store")
    assert await gateway.statuses(traces(span())) == [200]
    monkeypatch.setattr(refusal_cache, "MAX_AGE_NS", 3_600 * 10**9)
    return gateway


@pytest.mark.parametrize("media", [PROTOBUF, JSON])
async def test_both_refusals_are_the_same_but_for_the_connection(used_up: Gateway, media: str) -> None:
    headers = {"Content-Type": media, "X-Request-Id": "mine"}
    first, *others = [await used_up.post("/v1/logs", b"x" * 5_000, headers) for _ in range(3)]
    assert first.headers["Connection"] == "close"
    for other in others:
        assert (other.status, other.body) == (429, first.body)
        assert _told(other.headers) == _told(first.headers)
        assert "Connection" not in other.headers
        assert other.headers["Date"].endswith(" GMT")
    if media == PROTOBUF:
        assert "is used up" in Status.FromString(first.body).message
    else:
        assert first.json["error"] == {**first.json["error"], "code": "quota_exceeded", "requestId": "mine"}
    counted: dict[str, Any] = {"signal": "logs", "outcome": "refused"}
    assert used_up.metric("requests_total", reason="quota_exceeded", **counted) == 3
    assert used_up.metric("wire_bytes_total", **counted) == 15_000


async def test_a_key_is_known_again_whatever_stands_beside_it(used_up: Gateway) -> None:
    assert (await used_up.post("/v1/traces", b"")).headers["Connection"] == "close"
    key = used_up.projects[0].key
    for path, headers in (
        ("/v1/traces", {"X-Legacy-Auth": f"Legacy legacy_key={key}, t=1"}),
        ("/v1/traces?t=2", {"Authorization": f"DSN https://{key}@two/2"}),
        (f"/v1/traces?t=3&legacy_key={key}", {"Authorization": "Basic eDp5"}),
    ):
        answer = await used_up.request("POST", path, headers=headers)
        assert (answer.status, "Connection" in answer.headers) == (429, False)


async def test_who_says_too_much_of_himself_is_told_so(used_up: Gateway) -> None:
    """Keys that differ, and a project that is not the key's: as while the limit is not known to be spent."""
    mine, other = used_up.projects[:2]
    assert (await used_up.post("/v1/traces", b"")).status == 429
    assert (await used_up.post(f"/v1/traces?legacy_key={other.key}", b"")).status == 401
    assert (await used_up.post(f"/v1/traces?legacy_key={mine.key}&project_id=1", b"")).status == 403


async def test_what_a_proxy_adds_for_everybody_is_nobodys(used_up: Gateway) -> None:
    """The second key gets an answer of its own, and not what the first one was told."""
    for project in used_up.projects:
        path, headers = f"/v1/traces?legacy_key={project.key}", {"Authorization": "Basic eDp5"}
        answer = await used_up.request("POST", path, headers=headers)
        assert (answer.status, answer.headers["Connection"]) == (429, "close")


def _told(headers: Mapping[str, str]) -> dict[str, str]:
    """What stands in both, though written otherwise; the connection and the date are the skeleton's own."""
    return {name.lower(): value for name, value in headers.items() if name.lower() not in {"connection", "date"}}


async def test_a_body_is_dropped_and_the_connection_goes_on(used_up: Gateway) -> None:
    assert (await used_up.post("/v1/traces", b"")).status == 429
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Legacy-Auth: Legacy legacy_key={used_up.projects[0].key}\r\n"
    async with used_up.written_to() as (reader, writer):
        for _ in range(3):
            writer.write(f"{head}Content-Length: 500000\r\n\r\n".encode() + b"x" * 250_000)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 429 ")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert b"quota_exceeded" in await reader.readexactly(length)
            writer.write(b"x" * 250_000)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
