"""Object stores through the guarded client: what is put once, and what stores answer when they fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import structs

from control.warehouse.config import BlobProvider, BlobstoreConfig
from control.warehouse.stores.opening import open_store
from control.warehouse.stores.store import ObjectStore, ObjectStoreError, StoredObject
from tests.control.outbound.going_out import opened
from tests.e2e.object_store import BUCKET, REGION, object_store
from tests.e2e.object_store import ObjectStore as Bucket

SECRET = "a-secret-of-tests-only"
KEY = "acme/snk_1/dt=2026-11-20/start__1 ü.parquet"
S3 = BlobstoreConfig(bucket=BUCKET, region=REGION, access_key_id="tests", secret_access_key=SECRET, path_style=True)
GCS = structs.replace(S3, provider=BlobProvider.GCS)
AZURE = BlobstoreConfig(
    provider=BlobProvider.AZURE, account="account", container="c", account_key="YS1zZWNyZXQtb2YtdGVzdHMtb25seQ=="
)
CONFIGS = {"s3": S3, "gcs": GCS, "azure": AZURE}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def store_at(config: BlobstoreConfig, url: str) -> AsyncIterator[ObjectStore]:
    async with opened() as egress:
        yield open_store(structs.replace(config, endpoint=url), egress, "org")


@asynccontextmanager
async def answering(config: BlobstoreConfig, handler: Handler) -> AsyncIterator[ObjectStore]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app)
    await server.start_server()
    async with store_at(config, str(server.make_url("/"))) as store:
        yield store
    await server.close()


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with object_store() as bucket:
        yield bucket


async def test_a_key_is_put_once(bucket: Bucket) -> None:
    async with store_at(S3, bucket.url) as store:
        assert await store.put_new(KEY, b"first", "digest-1") is None
        assert await store.put_new(KEY, b"second", "digest-2") == StoredObject("digest-1", 5)
        assert bucket.read(KEY) == b"first"
        bucket.put("foreign", b"x")
        assert await store.put_new("foreign", b"y", "digest") == StoredObject("", 1)
        answers = await asyncio.gather(*(store.put_new("race", b"%d" % n, f"digest-{n}") for n in range(8)))
        assert answers.count(None) == 1


@pytest.mark.parametrize("name", CONFIGS)
async def test_what_is_sent(name: str) -> None:
    """Only where nothing is yet, with the digest, signed, the key encoded once."""
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        await request.read()
        digest = {"x-amz-meta-row-digest": "d", "x-goog-meta-row-digest": "d", "x-ms-meta-row_digest": "d"}
        exists = request.path.endswith("taken")
        if request.method == "HEAD":
            return web.Response(headers=digest, body=b"12345")
        return web.Response(status=(409 if name == "azure" else 412) if exists else 201)

    async with answering(CONFIGS[name], handler) as store:
        assert await store.put_new(KEY, b"body", "d") is None
        assert await store.put_new("taken", b"body", "d") == StoredObject("d", 5)
    first = seen[0]
    assert first.raw_path.endswith("/acme/snk_1/dt=2026-11-20/start__1%20%C3%BC.parquet")
    conditions = {
        "s3": ("If-None-Match", "*"),
        "gcs": ("x-goog-if-generation-match", "0"),
        "azure": ("If-None-Match", "*"),
    }
    header, value = conditions[name]
    assert first.headers[header] == value
    begins = {"s3": "AWS4-HMAC-SHA256 ", "gcs": "GOOG4-HMAC-SHA256 ", "azure": "SharedKey account:"}
    assert first.headers["Authorization"].startswith(begins[name])
    assert SECRET not in str(first.headers)


@pytest.mark.parametrize("name", CONFIGS)
async def test_what_failures_mean(name: str) -> None:
    for status, words, permanent in (
        (401, "credentials", True),
        (403, "credentials", True),
        (404, "does not exist", True),
        (301, "another region", True),
        (400, "status 400", True),
        (429, "busy", False),
        (503, "busy", False),
        (500, "has failed", False),
    ):

        async def handler(_request: web.Request, status: int = status) -> web.StreamResponse:
            return web.Response(status=status, text="an inner secret", headers={"Location": "http://127.0.0.1/x"})

        async with answering(CONFIGS[name], handler) as store:
            with pytest.raises(ObjectStoreError) as failure:
                await store.put_new("k", b"body", "d")
        assert words in failure.value.detail
        assert failure.value.permanent is permanent, status
        assert "inner" not in failure.value.detail
        assert "127.0.0.1" not in failure.value.detail


async def test_an_answer_that_is_lost_is_no_success() -> None:
    """Whoever repeats the put learns that the object is there. The client itself repeats it once."""
    stored: dict[str, bytes] = {}
    lost = [1, 2]

    async def handler(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method == "HEAD":
            return web.Response(headers={"x-amz-meta-row-digest": "d"}, body=stored[request.path])
        exists = stored.setdefault(request.path, body) is not body
        if lost:
            lost.pop()
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=412 if exists else 200)

    async with answering(S3, handler) as store:
        with pytest.raises(ObjectStoreError) as failure:
            await store.put_new("k", b"body", "d")
        assert not failure.value.permanent
        assert await store.put_new("k", b"body", "d") == StoredObject("d", 4)


async def test_another_put_that_goes_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.warehouse.stores.s3._PAUSE_S", 0.0)
    answers = [409, 409, 200]

    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=answers.pop(0))

    async with answering(S3, handler) as store:
        assert await store.put_new("k", b"body", "d") is None
    assert not answers


async def test_names_of_hosts() -> None:
    async with opened() as egress:
        named = structs.replace(S3, path_style=False)
        with pytest.raises(ObjectStoreError, match="not reached"):  # no notation of the guard is passed
            await open_store(structs.replace(named, endpoint="https://10.0.0.1"), egress, "org").put_new("k", b"", "d")
        for address in ("[::ffff:10.0.0.1]", "[fe80::1]:9000"):
            at = structs.replace(S3, endpoint=f"https://{address}")
            with pytest.raises(ObjectStoreError, match="The address is not allowed"):
                await open_store(at, egress, "org").put_new("k", b"", "d")
        for endpoint in ("ftp://x", "https://x:0", "nothing", "https://user@host", "https://host/?a=b", "http://[::1"):
            with pytest.raises(ObjectStoreError, match="endpoint"):
                open_store(structs.replace(S3, endpoint=endpoint), egress, "org")
        broken = structs.replace(AZURE, account_key="not base64!", endpoint="http://127.0.0.1:1")
        with pytest.raises(ObjectStoreError, match="base64"):
            await open_store(broken, egress, "org").put_new("k", b"", "d")
