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
PLAIN = structs.replace(S3, conditional_puts=False)
CONFIGS = {"s3": S3, "gcs": GCS, "azure": AZURE, "plain": PLAIN}
CONDITIONAL = ["s3", "gcs", "azure"]

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


async def test_a_store_without_conditions_is_read_before_and_after(bucket: Bucket) -> None:
    async with store_at(PLAIN, bucket.url) as store:
        assert await store.put_new(f"plain/{KEY}", b"first", "digest-1") is None
        assert await store.put_new(f"plain/{KEY}", b"second", "digest-2") == StoredObject("digest-1", 5)
        assert bucket.read(f"plain/{KEY}") == b"first"
        bucket.put("plain/foreign", b"x")
        assert await store.put_new("plain/foreign", b"y", "digest") == StoredObject("", 1)


class Racing:
    """A store in memory. `knows`: it takes conditions; else it refuses them as Backblaze B2 does."""

    def __init__(self, *, knows: bool) -> None:
        self.knows = knows
        self.objects: dict[str, tuple[str, bytes]] = {}
        self.requests: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(request.method)
        stored = self.objects.get(request.path)
        if request.method == "HEAD":
            headers = {} if stored is None else {"x-amz-meta-row-digest": stored[0]}
            return web.Response(status=404 if stored is None else 200, headers=headers, body=stored and stored[1])
        if "If-None-Match" in request.headers and not self.knows:
            return web.Response(status=501, body=b"<Error><Code>NotImplemented</Code></Error>")
        if stored is not None and self.knows:
            return web.Response(status=412)
        self.objects[request.path] = request.headers["x-amz-meta-row-digest"], body
        return web.Response()


@pytest.mark.parametrize("knows", [True, False], ids=["conditional", "read-back"])
async def test_a_race_for_a_key_leaves_one_object(knows: bool) -> None:
    """Without conditions several may put theirs, but each is told what is there in the end, or was before."""
    racing = Racing(knows=knows)
    async with answering(S3 if knows else PLAIN, racing.handle) as store:
        answers = await asyncio.gather(*(store.put_new("race", b"%d" % n, f"digest-{n}") for n in range(8)))
        assert not knows or answers.count(None) == 1
        ((digest, body),) = racing.objects.values()
        assert digest == f"digest-{body.decode()}"
        assert await store.put_new("race", b"9", "digest-9") == StoredObject(digest, 1)
    if not knows:
        async with answering(S3, racing.handle) as store:
            with pytest.raises(ObjectStoreError, match="does not support conditional puts") as failure:
                await store.put_new("k", b"", "d")
        assert "Set conditionalPuts to false" in failure.value.detail


async def test_what_a_read_back_does_not_find_is_no_success() -> None:
    """A put that is answered, and then is not there, or is another's: the first is tried again."""
    shown: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        if request.method == "HEAD":
            return web.Response(status=shown.pop(0), headers={"x-amz-meta-row-digest": "other"})
        return web.Response()

    async with answering(PLAIN, handler) as store:
        shown = [404, 404]
        with pytest.raises(ObjectStoreError, match="had no such object") as failure:
            await store.put_new("k", b"body", "d")
        assert not failure.value.permanent
        shown = [404, 200]
        assert await store.put_new("k", b"body", "d") == StoredObject("other", 0)


CAUSES: list[tuple[str, int, str, str]] = [
    ("s3", 501, "NotImplemented", "does not support conditional puts"),
    ("s3", 501, "", "does not support conditional puts"),
    ("s3", 400, "InvalidArgument If-None-Match", "does not support conditional puts"),
    ("s3", 404, "NoSuchKey", "does not support conditional puts"),
    ("s3", 412, "", "does not support conditional puts: set"),  # and then the key does not exist
    ("plain", 501, "NotImplemented", "does not support what the request asks for"),
    ("gcs", 501, "NotImplemented", "does not support what the request asks for"),
    ("azure", 501, "", "does not support what the request asks for"),
    ("s3", 400, "AuthorizationHeaderMalformed", "in the region eu-west-1: set region"),
    ("plain", 400, "AuthorizationHeaderMalformed", "in the region eu-west-1: set region"),
    ("s3", 301, "PermanentRedirect", "in the region eu-west-1"),
    ("s3", 307, "TemporaryRedirect", "in the region eu-west-1"),
    ("s3", 400, "IllegalLocationConstraintException", "in the region eu-west-1"),
    ("gcs", 400, "AuthorizationHeaderMalformed", "in the region eu-west-1"),
    ("azure", 400, "InvalidAuthenticationInfo", "cannot read the signature"),
    ("s3", 400, "ExpiredToken", "has expired: send new credentials"),
    ("plain", 400, "ExpiredToken", "has expired: send new credentials"),
    ("s3", 400, "InvalidToken", "sessionToken of one session"),
    ("s3", 403, "RequestTimeTooSkewed", "clocks"),
    ("gcs", 403, "RequestTimeTooSkewed", "clocks"),
    ("azure", 403, "AuthenticationFailed Request date header too old", "clocks"),
    ("azure", 403, "AuthenticationFailed Signature not valid in the specified time frame", "has expired"),
    ("azure", 403, "AuthenticationFailed The MAC signature", "The signature does not match"),
    ("azure", 403, "AuthorizationFailure Server failed to authenticate the request", "The signature does not match"),
    ("azure", 403, "AuthorizationFailure", "may not do this"),
    ("azure", 403, "AuthorizationPermissionMismatch", "may not do this"),
    ("s3", 404, "NoSuchBucket", "does not exist"),
    ("plain", 404, "NoSuchBucket", "does not exist"),
    ("azure", 404, "ContainerNotFound", "does not exist"),
    ("s3", 403, "AccessDenied", "may not do this"),
    ("plain", 403, "AccessDenied", "may not do this"),
    ("s3", 403, "AccessDenied Transaction cap exceeded", "spending cap"),
    ("s3", 403, "InvalidAccessKeyId", "does not know the access key"),
    ("gcs", 403, "InvalidSecurity", "does not know the access key"),
    ("s3", 403, "SignatureDoesNotMatch", "The signature does not match"),
    ("s3", 403, "QuotaExceeded", "quota"),
    ("s3", 507, "XMinioStorageFull", "is full"),
    ("s3", 403, "AccountProblem", "disabled the account"),
    ("s3", 400, "InvalidBucketName", "name of the bucket"),
    ("s3", 405, "MethodNotAllowed", "pathStyle"),
    ("s3", 400, "KeyTooLongError", "shorten prefix"),
    ("s3", 400, "KMS.DisabledException", "encrypts"),
    ("s3", 503, "SlowDown", "is busy"),
    ("s3", 400, "RequestTimeout", "did not reach the store as it was sent"),
    ("s3", 500, "InternalError", "has failed"),
    ("s3", 400, "SomethingElse", "with status 400 (SomethingElse)."),
]


AGAIN = ("clocks", "is busy", "has failed", "did not reach", "the object exists, but a HEAD request")


async def test_causes_are_named() -> None:
    """By the code of the error, also where the request is a look, whose answer has no body."""
    for name, status, error, words in CAUSES:
        code, _, text = error.partition(" ")
        region = "" if name == "azure" else "<Region>eu-west-1</Region>"
        body = f"<Error><Code>{code}</Code><Message>inner secret {text}</Message>{region}</Error>" if code else ""

        async def handler(request: web.Request, status: int = status, body: str = body) -> web.StreamResponse:
            await request.read()
            return web.Response(status=404 if request.method == "HEAD" and status in (404, 412) else status, text=body)

        async with answering(CONFIGS[name], handler) as store:
            with pytest.raises(ObjectStoreError) as failure:
                await store.put_new("k", b"body", "d")
        detail = failure.value.detail
        assert words in detail, (name, status, error, detail)
        assert "secret of" not in detail
        assert "inner" not in detail
        assert failure.value.permanent is not any(again in detail for again in AGAIN), (error, detail)


@pytest.mark.parametrize(
    ("name", "status", "headers", "words"),
    [
        ("s3", 301, {"x-amz-bucket-region": "eu-west-1"}, "in the region eu-west-1"),
        ("s3", 400, {"x-amz-bucket-region": "eu-west-1"}, "with status 400"),
        ("azure", 403, {"x-ms-error-code": "AuthorizationPermissionMismatch"}, "may not do this"),
        ("azure", 409, {"x-ms-error-code": "ContainerNotFound"}, "does not exist"),
    ],
)
async def test_causes_are_named_in_headers(name: str, status: int, headers: dict[str, str], words: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(status=404 if (request.method, status) == ("HEAD", 409) else status, headers=headers)

    async with answering(CONFIGS[name], handler) as store:
        with pytest.raises(ObjectStoreError, match=words):
            await store.put_new("k", b"body", "d")


async def test_a_signature_that_may_not_overwrite_finds_what_exists() -> None:
    """Azure answers 403 to a shared access signature that may create blobs and not write them."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(headers={"x-ms-meta-row_digest": "d"}, body=b"1234")
        return web.Response(status=403, headers={"x-ms-error-code": "UnauthorizedBlobOverwrite"})

    async with answering(AZURE, handler) as store:
        assert await store.put_new("k", b"body", "d") == StoredObject("d", 4)


async def test_what_is_named_of_an_answer_is_a_code_and_a_region() -> None:
    """No other bytes, and no region that is the one of the config: then it is the endpoint that is wrong."""
    for region, named in ((REGION, ""), ("eu-west-1/x", ""), ("<b>", ""), ("a" * 41, ""), ("auto", "auto")):

        async def handler(_request: web.Request, region: str = region) -> web.StreamResponse:
            text = f"<Code> PermanentRedirect </Code><Region>{region}</Region>"
            return web.Response(status=301, text=text, headers={"x-amz-bucket-region": region})

        async with answering(S3, handler) as store:
            with pytest.raises(ObjectStoreError) as failure:
                await store.put_new("k", b"body", "d")
        expected = f"region {named}:" if named else "correct region and endpoint"
        assert expected in failure.value.detail, region
    for code in ("<x>", "a" * 61, "a b", "ü"):

        async def refuse(_request: web.Request, code: str = code) -> web.StreamResponse:
            return web.Response(status=418, text=f"<Code>{code}</Code>")

        async with answering(S3, refuse) as store:
            with pytest.raises(ObjectStoreError, match=r"^The store refused the object with status 418\.$"):
                await store.put_new("k", b"body", "d")


@pytest.mark.parametrize("name", CONDITIONAL)
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
