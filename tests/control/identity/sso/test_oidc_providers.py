"""Metadata and keys of providers: fetched through the guard, cached, and refused with a reason."""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from control.identity.sso.oidc import provider
from control.identity.sso.oidc.provider import FAILURE_S, FRESH_S, REFETCH_S, WELL_KNOWN, ProviderMetadata, Providers
from control.identity.sso.refusal import LoginRefused
from control.outbound.egress import MAX_BODY_BYTES, Egress
from control.outbound.egress_policy import EgressPolicy
from tests.control.identity.sso.authority import Authority, issue
from tests.control.identity.sso.oidc_tokens import jwk
from tests.control.identity.sso.site import Site, hanging, serving, truncated
from tests.control.outbound.going_out import LOOPBACK, opened

ALLOWED = EgressPolicy((LOOPBACK,))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return issue(tmp_path_factory.mktemp("authority"))


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """A provider at `site`, and what reads it."""

    site: Site
    egress: Egress
    clock: Clock = field(default_factory=Clock)
    providers: Providers = field(init=False)

    def __post_init__(self) -> None:
        self.providers = Providers(self.egress, self.clock)
        self.publish_metadata()
        self.publish_keys("key-1")

    def publish_metadata(self, **members: Any) -> None:
        url = self.site.url
        document = {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "jwks_uri": f"{url}/jwks",
        }
        self.site.publish(WELL_KNOWN, document | members)

    def publish_keys(self, *kids: str) -> None:
        self.site.publish("/jwks", {"keys": [jwk("P-256", kid=kid) for kid in kids]})

    async def metadata(self, account: str = "acme") -> ProviderMetadata:
        return await self.providers.metadata(self.site.url, account=account)

    async def kids(self, account: str = "acme", unknown_kid: str | None = None) -> list[str | None]:
        keys = await self.providers.key_set(await self.metadata(account), account=account, unknown_kid=unknown_kid)
        return [key.kid for key in keys]

    async def refusal(self, account: str = "acme", unknown_kid: str | None = None) -> tuple[str, str]:
        with pytest.raises(LoginRefused) as raised:
            await self.kids(account, unknown_kid)
        return raised.value.reason, raised.value.detail

    def fetched(self, path: str) -> int:
        """How often."""
        return self.site.requests.count(f"GET {path}")


@asynccontextmanager
async def world(authority: Authority, policy: EgressPolicy = ALLOWED, **options: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(serving(authority))
        egress = await stack.enter_async_context(opened(policy, tls=authority.client_context(), **options))
        yield World(site, egress)


@pytest.fixture
async def at(authority: Authority) -> AsyncIterator[World]:
    async with world(authority) as found:
        yield found


async def test_metadata_and_keys_are_fetched_once_and_cached(at: World) -> None:
    metadata = await at.metadata()
    assert metadata.token_endpoint == f"{at.site.url}/token"
    assert await at.kids() == ["key-1"]
    at.clock.now += FRESH_S - 1
    assert await at.metadata("globex") == metadata
    assert await at.kids("globex") == ["key-1"]
    assert at.site.requests == [f"GET {WELL_KNOWN}", "GET /jwks"]
    assert at.site.last[0]["Accept"] == "application/json"
    at.clock.now += 1
    at.publish_keys("key-2")
    assert await at.kids() == ["key-2"]
    assert at.site.requests == [f"GET {WELL_KNOWN}", "GET /jwks"] * 2


async def test_concurrent_calls_share_one_fetch(at: World) -> None:
    assert await asyncio.gather(*(at.kids() for _ in range(20))) == [["key-1"]] * 20
    assert at.site.requests == [f"GET {WELL_KNOWN}", "GET /jwks"]


async def test_a_cancelled_call_does_not_cancel_the_others(at: World) -> None:
    released = asyncio.Event()
    served = at.site.answers[WELL_KNOWN]
    at.site.answers[WELL_KNOWN] = hanging(released)
    first, second = asyncio.create_task(at.metadata()), asyncio.create_task(at.metadata())
    while not at.site.requests:
        await asyncio.sleep(0.01)
    at.site.answers[WELL_KNOWN] = served
    first.cancel()
    assert (await second).issuer == at.site.url
    released.set()


async def test_an_unknown_key_is_fetched_at_once_and_then_not_for_a_while(at: World) -> None:
    assert await at.kids() == ["key-1"]
    assert await at.kids(unknown_kid="key-1") == ["key-1"]
    assert at.fetched("/jwks") == 1
    at.publish_keys("key-2")
    assert await asyncio.gather(*(at.kids(unknown_kid="key-2") for _ in range(5))) == [["key-2"]] * 5
    assert at.fetched("/jwks") == 2
    at.publish_keys("key-3")
    at.clock.now += REFETCH_S - 1
    assert await at.kids(unknown_kid="key-3") == ["key-2"]
    assert at.fetched("/jwks") == 2
    at.clock.now += 1
    assert await at.kids(unknown_kid="key-3") == ["key-3"]
    assert await at.kids("globex") == ["key-3"]
    assert at.fetched("/jwks") == 3
    assert at.fetched(WELL_KNOWN) == 1


async def test_one_organization_does_not_use_up_the_fetches_of_another(at: World) -> None:
    assert await at.kids(unknown_kid="never") == ["key-1"]
    assert await at.kids(unknown_kid="never") == ["key-1"]
    at.publish_keys("key-2")
    assert await at.kids("globex", unknown_kid="key-2") == ["key-2"]


async def test_a_failed_fetch_for_an_unknown_key_leaves_the_known_ones(at: World) -> None:
    assert await at.kids() == ["key-1"]
    at.site.publish("/jwks", b"", 500)
    assert await at.refusal(unknown_kid="key-2") == ("provider_unavailable", "Key set: HTTP 500")
    assert await at.kids() == ["key-1"]
    assert await at.kids(unknown_kid="key-2") == ["key-1"]
    assert at.fetched("/jwks") == 2


async def test_a_failure_is_kept_for_a_moment_and_for_one_organization(at: World) -> None:
    at.site.publish(WELL_KNOWN, b"", 503)
    for _ in range(3):
        assert await at.refusal() == ("provider_unavailable", "Metadata: HTTP 503")
    assert at.fetched(WELL_KNOWN) == 1
    assert await at.refusal("globex") == ("provider_unavailable", "Metadata: HTTP 503")
    assert at.fetched(WELL_KNOWN) == 2
    at.publish_metadata()
    at.clock.now += FAILURE_S - 0.1
    assert await at.refusal() == ("provider_unavailable", "Metadata: HTTP 503")
    at.clock.now += 0.1
    assert await at.kids() == ["key-1"]


async def test_the_cache_drops_the_least_recently_used_issuer(at: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "MAX_ISSUERS", 2)
    issuers = [f"{at.site.url}/{number}" for number in range(3)]
    for issuer in issuers:
        path = issuer.removeprefix(at.site.url)
        at.publish_metadata(issuer=issuer)
        at.site.answers[path + WELL_KNOWN] = at.site.answers[WELL_KNOWN]
    for number in (0, 1, 0, 2, 0, 1):
        await at.providers.metadata(issuers[number], account="acme")
    assert [at.fetched(f"/{number}{WELL_KNOWN}") for number in range(3)] == [1, 2, 1]
    assert len(at.providers._metadata._cached) == len(at.providers._metadata._fetches) == 2


NO_JSON = "JSON is malformed: invalid character (byte 0)"
TOO_LARGE = "The response is too large."
# What a provider answers, and what is said of it; of the second ones before that what was fetched.
NO_DOCUMENTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"document": b"<!doctype html><title>Login</title>", "Content_Type": "text/html"}, NO_JSON),
    ({"document": b"\x1f\x8b\x08\x00", "Content_Encoding": "gzip"}, NO_JSON),
    ({"document": b""}, "Input data was truncated"),
)
UNAVAILABLE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"document": b"[" + b"1," * 2**19}, TOO_LARGE),
    ({"document": b"{" + b" " * MAX_BODY_BYTES}, TOO_LARGE),
    ({"document": b"", "status": 302, "Location": "https://idp.example.com/"}, "HTTP 302"),
    ({"document": {"issuer": "x"}, "status": 404}, "HTTP 404"),
)


async def test_an_answer_that_is_no_document_is_refused(at: World) -> None:
    for path, what, reason in (
        ("/jwks", "Key set", "provider_keys_invalid"),
        (WELL_KNOWN, "Metadata", "provider_metadata_invalid"),
    ):
        for answer, detail in NO_DOCUMENTS:
            at.site.publish(path, **answer)
            assert await at.refusal() == (reason, detail)
            at.clock.now += FRESH_S
        for answer, detail in UNAVAILABLE:
            at.site.publish(path, **answer)
            assert await at.refusal() == ("provider_unavailable", f"{what}: {detail}")
            at.clock.now += FRESH_S


async def test_a_document_of_the_largest_size_is_read(at: World) -> None:
    at.site.publish("/jwks", b'{"keys":[]}'.ljust(MAX_BODY_BYTES))
    assert (await at.refusal())[0] == "provider_keys_invalid"


async def test_a_provider_that_hangs_is_given_up(authority: Authority) -> None:
    released = asyncio.Event()
    async with world(authority, total_s=0.3) as at:
        at.site.answers[WELL_KNOWN] = hanging(released)
        assert await at.refusal() == ("provider_unavailable", "Metadata: The server did not respond in time.")
        released.set()


async def test_a_document_that_breaks_off_is_not_read(at: World) -> None:
    at.site.answers["/jwks"] = truncated(b'{"keys":[]}', 1_000)
    assert await at.refusal() == ("provider_unavailable", "Key set: The connection was lost.")


async def test_metadata_of_another_issuer_is_refused(at: World) -> None:
    at.publish_metadata(issuer="https://idp.example.com")
    expected = f"Expected {at.site.url}, got https://idp.example.com"
    assert await at.refusal() == ("provider_issuer_mismatch", expected)


async def test_a_provider_at_a_private_address_is_not_reached(authority: Authority) -> None:
    async with world(authority, EgressPolicy()) as at:
        assert await at.refusal() == ("provider_unavailable", "Metadata: The address is not allowed.")
        assert at.site.requests == []


async def test_an_endpoint_at_a_private_address_is_not_reached(authority: Authority) -> None:
    async with world(authority, EgressPolicy((ipaddress.ip_network("127.0.0.1/32"),))) as at:
        for host in ("10.0.0.1", "169.254.169.254", "[::1]", "127.0.0.2"):
            at.publish_metadata(jwks_uri=f"https://{host}/jwks")
            at.clock.now += FRESH_S
            assert await at.refusal() == ("provider_unavailable", "Key set: The address is not allowed."), host


async def test_a_provider_whose_certificate_nobody_signed_is_not_believed(authority: Authority) -> None:
    async with serving(authority) as site, opened(ALLOWED) as egress:
        at = World(site, egress)
        detail = "Metadata: The certificate of the server is not valid."
        assert await at.refusal() == ("provider_unavailable", detail)


async def test_slow_names_of_one_organization_do_not_fail_another(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-ups of an organization wait in slots of its own."""
    released, real = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        if host.startswith("slow"):
            released.wait(10)
            raise socket.gaierror
        return real(host, *arguments, **options)

    async with world(authority, total_s=0.5) as at:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        slow = [at.providers.metadata(f"https://slow{number}.example.com", account="acme") for number in range(8)]
        results, kids = await asyncio.gather(asyncio.gather(*slow, return_exceptions=True), at.kids("globex"))
        assert {str(result) for result in results} == {"provider_unavailable"}
        assert kids == ["key-1"]
        released.set()


async def test_nothing_is_fetched_for_an_issuer_that_is_no_https_url(authority: Authority) -> None:
    async with world(authority, EgressPolicy((LOOPBACK,), allow_http=True)) as at:
        with pytest.raises(LoginRefused) as raised:
            await at.providers.metadata(at.site.url.replace("https", "http"), account="acme")
        assert raised.value.reason == "issuer_invalid"


async def test_a_document_is_served_as_any_media_type(at: World) -> None:
    keys = {"keys": [jwk("P-256", kid="a")]}
    at.site.publish("/jwks", keys, Content_Type="application/octet-stream")
    assert await at.kids() == ["a"]
