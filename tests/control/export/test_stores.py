"""Object stores through the guarded client: what is put once, and what stores answer when they fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import structs

from control.export.destinations.interfaces import DestinationError, ObjectStore, StoredObject
from control.export.model import BlobProvider, BlobstoreConfig
from control.export.sink_destination import open_store
from control.outbound.egress import Egress
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

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def saying(
    status: int, text: str = "", headers: Mapping[str, str] = MappingProxyType({}), head: int | None = None
) -> Handler:
    """Answers all alike, or HEAD with a status of its own."""

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        said = status if head is None or request.method != "HEAD" else head
        return web.Response(status=said, text=text, headers=headers)

    return handler


@dataclass
class Server:
    """It answers as `handler` says, which a test changes as it goes on."""

    egress: Egress
    handler: Handler
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)

    def store(self, config: BlobstoreConfig) -> ObjectStore:
        return open_store(structs.replace(config, endpoint=self.url), self.egress, "org")

    async def failure(self, config: BlobstoreConfig, handler: Handler | None = None) -> DestinationError:
        """Of a put."""
        self.handler = handler or self.handler
        with pytest.raises(DestinationError) as failure:
            await self.store(config).put_new("k", b"body", "d")
        return failure.value


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with opened() as egress:
        made, app = Server(egress, saying(200)), web.Application()
        app.router.add_route("*", "/{path:.*}", made.handle)
        async with TestServer(app) as listening:
            made.url = str(listening.make_url("/"))
            yield made


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with object_store() as bucket:
        yield bucket


async def test_a_key_is_put_once(bucket: Bucket) -> None:
    """Also by a store that knows no conditions: it is read before and after."""
    async with opened() as egress:
        for prefix, config in (("", S3), ("plain/", PLAIN)):
            store = open_store(structs.replace(config, endpoint=bucket.url), egress, "org")
            assert await store.put_new(prefix + KEY, b"first", "digest-1") is None
            assert await store.put_new(prefix + KEY, b"second", "digest-2") == StoredObject("digest-1", 5)
            assert bucket.read(prefix + KEY) == b"first"
            bucket.put(f"{prefix}foreign", b"x")
            assert await store.put_new(f"{prefix}foreign", b"y", "digest") == StoredObject("", 1)


class Racing:
    """A store in memory. `knows`: it takes conditions; else it refuses them as Backblaze B2 does."""

    def __init__(self, *, knows: bool) -> None:
        self.knows = knows
        self.objects: dict[str, tuple[str, bytes]] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
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


async def test_a_race_for_a_key_leaves_one_object(server: Server) -> None:
    """Without conditions several may put theirs, but each is told what is there in the end, or was before."""
    for knows, config in ((True, S3), (False, PLAIN)):
        racing = Racing(knows=knows)
        server.handler, store = racing.handle, server.store(config)
        answers = await asyncio.gather(*(store.put_new("race", b"%d" % n, f"digest-{n}") for n in range(8)))
        assert not knows or answers.count(None) == 1
        ((digest, body),) = racing.objects.values()
        assert digest == f"digest-{body.decode()}"
        assert await store.put_new("race", b"9", "digest-9") == StoredObject(digest, 1)
    detail = (await server.failure(S3)).detail
    assert "does not support conditional puts" in detail
    assert "Set conditionalPuts to false" in detail


async def test_what_a_read_back_does_not_find_is_no_success(server: Server) -> None:
    """A put that is answered, and then is not there, or is another's: the first is tried again."""
    shown = [404, 404, 404, 200]

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        if request.method == "HEAD":
            return web.Response(status=shown.pop(0), headers={"x-amz-meta-row-digest": "other"})
        return web.Response()

    failure = await server.failure(PLAIN, handler)
    assert "does not exist afterwards" in failure.detail
    assert not failure.permanent
    assert await server.store(PLAIN).put_new("k", b"body", "d") == StoredObject("other", 0)


CAUSES: list[tuple[str, int, str, str]] = [
    ("s3", 501, "NotImplemented", "does not support conditional puts"),
    ("s3", 501, "", "does not support conditional puts"),
    ("s3", 400, "InvalidArgument If-None-Match", "does not support conditional puts"),
    ("s3", 404, "NoSuchKey", "does not support conditional puts"),
    ("s3", 412, "", "does not support conditional puts. Set"),  # and then the key does not exist
    ("plain", 501, "NotImplemented", "does not support a part of the request"),
    ("gcs", 501, "NotImplemented", "does not support a part of the request"),
    ("azure", 501, "", "does not support a part of the request"),
    ("s3", 400, "AuthorizationHeaderMalformed", "in the region eu-west-1. Set region"),
    ("plain", 400, "AuthorizationHeaderMalformed", "in the region eu-west-1. Set region"),
    ("s3", 301, "PermanentRedirect", "in the region eu-west-1"),
    ("s3", 307, "TemporaryRedirect", "in the region eu-west-1"),
    ("s3", 400, "IllegalLocationConstraintException", "in the region eu-west-1"),
    ("gcs", 400, "AuthorizationHeaderMalformed", "in the region eu-west-1"),
    ("azure", 400, "InvalidAuthenticationInfo", "cannot parse the signature"),
    ("s3", 400, "ExpiredToken", "has expired. Send new credentials"),
    ("plain", 400, "ExpiredToken", "has expired. Send new credentials"),
    ("s3", 400, "InvalidToken", "sessionToken of one session"),
    ("s3", 403, "RequestTimeTooSkewed", "clocks"),
    ("gcs", 403, "RequestTimeTooSkewed", "clocks"),
    ("azure", 403, "AuthenticationFailed Request date header too old", "clocks"),
    ("azure", 403, "AuthenticationFailed Signature not valid in the specified time frame", "has expired"),
    ("azure", 403, "AuthenticationFailed The MAC signature", "The signature does not match"),
    ("azure", 403, "AuthorizationFailure Server failed to authenticate the request", "The signature does not match"),
    ("azure", 403, "AuthorizationFailure", "lack a permission"),
    ("azure", 403, "AuthorizationPermissionMismatch", "lack a permission"),
    ("s3", 404, "NoSuchBucket", "does not exist"),
    ("plain", 404, "NoSuchBucket", "does not exist"),
    ("azure", 404, "ContainerNotFound", "does not exist"),
    ("s3", 403, "AccessDenied", "lack a permission"),
    ("plain", 403, "AccessDenied", "lack a permission"),
    ("s3", 403, "AccessDenied Transaction cap exceeded", "spending limit"),
    ("s3", 403, "InvalidAccessKeyId", "does not know the access key"),
    ("gcs", 403, "InvalidSecurity", "does not know the access key"),
    ("s3", 403, "SignatureDoesNotMatch", "The signature does not match"),
    ("s3", 403, "QuotaExceeded", "quota"),
    ("s3", 507, "XMinioStorageFull", "is full"),
    ("s3", 403, "AccountProblem", "disabled the account"),
    ("s3", 400, "InvalidBucketName", "name of the bucket"),
    ("s3", 405, "MethodNotAllowed", "pathStyle"),
    ("s3", 400, "KeyTooLongError", "Shorten prefix"),
    ("s3", 400, "KMS.DisabledException", "encrypts"),
    ("s3", 503, "SlowDown", "is busy"),
    ("s3", 400, "RequestTimeout", "completely and unchanged"),
    ("s3", 500, "InternalError", "had an internal error"),
    ("s3", 400, "SomethingElse", "with status 400 (SomethingElse)."),
]
OF_HEADERS: list[tuple[str, int, dict[str, str], str]] = [
    ("s3", 301, {"x-amz-bucket-region": "eu-west-1"}, "in the region eu-west-1"),
    ("s3", 400, {"x-amz-bucket-region": "eu-west-1"}, "with status 400"),
    ("azure", 403, {"x-ms-error-code": "AuthorizationPermissionMismatch"}, "lack a permission"),
    ("azure", 409, {"x-ms-error-code": "ContainerNotFound"}, "does not exist"),
]
AGAIN = ("clocks", "is busy", "internal error", "completely and unchanged", "the object exists, but a HEAD request")


async def test_causes_are_named(server: Server) -> None:
    """By the code of the error, also where the request is a look, whose answer has no body."""
    for name, status, error, words in CAUSES:
        code, _, text = error.partition(" ")
        region = "" if name == "azure" else "<Region>eu-west-1</Region>"
        body = f"<Error><Code>{code}</Code><Message>inner secret {text}</Message>{region}</Error>" if code else ""
        handler = saying(status, body, head=404 if status in (404, 412) else None)
        failure = await server.failure(CONFIGS[name], handler)
        assert words in failure.detail, (name, status, error, failure.detail)
        assert "secret of" not in failure.detail
        assert "inner" not in failure.detail
        assert failure.permanent is not any(again in failure.detail for again in AGAIN), (error, failure.detail)
    for name, status, headers, words in OF_HEADERS:
        handler = saying(status, headers=headers, head=404 if status == 409 else None)
        assert words in (await server.failure(CONFIGS[name], handler)).detail, (name, status)


async def test_a_signature_that_may_not_overwrite_finds_what_exists(server: Server) -> None:
    """Azure answers 403 to a shared access signature that may create blobs and not write them."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(headers={"x-ms-meta-row_digest": "d"}, body=b"1234")
        return web.Response(status=403, headers={"x-ms-error-code": "UnauthorizedBlobOverwrite"})

    server.handler = handler
    assert await server.store(AZURE).put_new("k", b"body", "d") == StoredObject("d", 4)


async def test_what_is_named_of_an_answer_is_a_code_and_a_region(server: Server) -> None:
    """No other bytes, and no region that is the one of the config: then it is the endpoint that is wrong."""
    for region, named in ((REGION, ""), ("eu-west-1/x", ""), ("<b>", ""), ("a" * 41, ""), ("auto", "auto")):
        text = f"<Code> PermanentRedirect </Code><Region>{region}</Region>"
        failure = await server.failure(S3, saying(301, text, {"x-amz-bucket-region": region}))
        expected = f"region {named}." if named else "Correct region and endpoint"
        assert expected in failure.detail, region
    for code in ("<x>", "a" * 61, "a b", "ü"):
        failure = await server.failure(S3, saying(418, f"<Code>{code}</Code>"))
        assert failure.detail == "The store refused the object with status 418."


async def test_what_is_sent(server: Server) -> None:
    """Only where nothing is yet, with the digest, signed, the key encoded once."""
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        await request.read()
        digest = {"x-amz-meta-row-digest": "d", "x-goog-meta-row-digest": "d", "x-ms-meta-row_digest": "d"}
        if request.method == "HEAD":
            return web.Response(headers=digest, body=b"12345")
        taken = 409 if "x-ms-version" in request.headers else 412
        return web.Response(status=taken if request.path.endswith("taken") else 201)

    server.handler = handler
    for name, header, value, signature in (
        ("s3", "If-None-Match", "*", "AWS4-HMAC-SHA256 "),
        ("gcs", "x-goog-if-generation-match", "0", "GOOG4-HMAC-SHA256 "),
        ("azure", "If-None-Match", "*", "SharedKey account:"),
    ):
        seen.clear()
        store = server.store(CONFIGS[name])
        assert await store.put_new(KEY, b"body", "d") is None
        assert await store.put_new("taken", b"body", "d") == StoredObject("d", 5)
        first = seen[0]
        assert first.raw_path.endswith("/acme/snk_1/dt=2026-11-20/start__1%20%C3%BC.parquet")
        assert first.headers[header] == value
        assert first.headers["Authorization"].startswith(signature)
        assert SECRET not in str(first.headers)


async def test_what_failures_mean(server: Server) -> None:
    for status, words, permanent in (
        (401, "credentials", True),
        (403, "credentials", True),
        (404, "does not exist", True),
        (301, "another region", True),
        (400, "status 400", True),
        (429, "busy", False),
        (503, "busy", False),
        (500, "had an internal error", False),
    ):
        for config in CONFIGS.values():
            handler = saying(status, "an inner secret", {"Location": "http://127.0.0.1/x"})
            failure = await server.failure(config, handler)
            assert (words in failure.detail, failure.permanent) == (True, permanent), (status, failure.detail)
            assert "inner" not in failure.detail
            assert "127.0.0.1" not in failure.detail


async def test_an_answer_that_is_lost_is_no_success(server: Server) -> None:
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

    assert not (await server.failure(S3, handler)).permanent
    assert await server.store(S3).put_new("k", b"body", "d") == StoredObject("d", 4)


async def test_another_put_that_goes_on_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.export.destinations.object_stores._PAUSE_S", 0.0)
    answers = [409, 409, 200]

    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=answers.pop(0))

    server.handler = handler
    assert await server.store(S3).put_new("k", b"body", "d") is None
    assert not answers


async def test_names_of_hosts() -> None:
    async with opened() as egress:
        named = structs.replace(S3, path_style=False)
        with pytest.raises(DestinationError, match="not be reached"):  # no notation of the guard is passed
            await open_store(structs.replace(named, endpoint="https://10.0.0.1"), egress, "org").put_new("k", b"", "d")
        for address in ("[::ffff:10.0.0.1]", "[fe80::1]:9000"):
            at = structs.replace(S3, endpoint=f"https://{address}")
            with pytest.raises(DestinationError, match="The address is not allowed"):
                await open_store(at, egress, "org").put_new("k", b"", "d")
        for endpoint in ("ftp://x", "https://x:0", "nothing", "https://user@host", "https://host/?a=b", "http://[::1"):
            with pytest.raises(DestinationError, match="endpoint"):
                open_store(structs.replace(S3, endpoint=endpoint), egress, "org")
        broken = structs.replace(AZURE, account_key="not base64!", endpoint="http://127.0.0.1:1")
        with pytest.raises(DestinationError, match="base64"):
            await open_store(broken, egress, "org").put_new("k", b"", "d")
