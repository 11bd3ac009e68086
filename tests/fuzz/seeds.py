"""What the corpora begin with: requests of the generators that other tests use, and examples of every format.

`python -m tests.fuzz.seeds` writes them among the inputs of this machine; `--minimise` then keeps what adds coverage.
"""

import base64
import gzip
import itertools
import json
import zlib
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
from backports import zstd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from proto.identity import encode_project_key, encode_token, format_dsn
from proto.otlp.policy import Signal
from proto.proofs import dsse
from proto.proofs.bundle import PREDICATE_TYPE, STATEMENT_TYPE
from query.request.filters import Op
from query.rows import LOGS, SPANS
from tests.control.governance.billing import processor
from tests.control.identity.sso import oidc_tokens, url_standard
from tests.fuzz.run import GROWN
from tests.fuzz.targets import chat_events as chat_events_target
from tests.fuzz.targets import code_messages as code_messages_target
from tests.fuzz.targets import saml as saml_target
from tests.fuzz.targets import scim_filters as scim_filters_target
from tests.fuzz.targets import scim_patch as scim_patch_target
from tests.fuzz.targets import scim_users as scim_users_target
from tests.fuzz.targets import scm_events as scm_events_target
from tests.fuzz.targets import tracker_events as tracker_events_target
from tests.fuzz.targets.kernel import CHOICES
from tests.gateway.grpc import frames
from tests.proto.grouping.pairs import read_pairs, runtimes
from tests.proto.otlp import generate, realistic
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.json_text import JsonWriter
from tests.proto.proofs import shapes

REQUESTS: Final = 400


def kernel() -> Iterator[bytes]:
    for seed in range(0, REQUESTS, 2):
        pair = [generate.case(seed), generate.case(seed + 1)]
        yield b"".join(
            bytes((CHOICES.index(case.policy) + len(CHOICES) * (case.signal == "logs"),))
            + len(case.body).to_bytes(2, "big")
            + case.body
            for case in pair
            if len(case.body) < 1500
        )


def _nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    return opening * depth + b'{"intValue":1}' + closing * depth


_ODD_MEMBERS: Final = (
    b"",
    b'"entityRefs":[{"schemaUrl":"u","type":"service","idKeys":["k",""],"descriptionKeys":["d"]},null]',
    b'"attributes":[{"key":"k","value":%s}]' % _nested(31, b'{"arrayValue":{"values":[', b"]}}"),
    b'"attributes":[{"key":"k","value":%s}]' % _nested(32, b'{"arrayValue":{"values":[', b"]}}"),
    b'"attributes":[{"key":"k","value":%s}]' % _nested(20, b'{"kvlistValue":{"values":[{"key":"a","value":', b"}]}}"),
    b'"unknown":' + b"[" * 65 + b"]" * 65,
    b'"unknown":' + b"[" * 1900 + b"]" * 1900,
    *(
        b'"%s":%s,"attributes":[{"key":"k","value":{"%s":%s}}]' % (name, number, member, number)
        for name in (b"droppedAttributesCount", b"flags", b"startTimeUnixNano", b"timeUnixNano")
        for member in (b"intValue", b"doubleValue")
        for number in (b"1e400", b"1.5", b"5e0", b'"x"', b"-1", b"4294967296", b"18446744073709551616", b'"1e400"')
    ),
)


def otlp_json() -> Iterator[bytes]:
    for seed in range(REQUESTS // 4):
        random = Random(seed)
        writer = generate.Writer(random, seed % 2, random.choice(generate.POLICIES), unicode_only=True)
        try:
            yield b"\0" + as_json(TracesData.FromString(writer.request("traces")))
            yield b"\1" + as_json(LogsData.FromString(writer.request("logs")))
        except Exception:  # noqa: BLE001, S112 - what the official messages do not read is no seed
            continue
    for seed in range(REQUESTS):
        random = Random(seed)
        writer_of_text = JsonWriter(random, random.choice((0, 0.01, 0.1)))
        signal: Signal = random.choice(("traces", "logs"))
        body = writer_of_text.request(signal)
        if len(body) < 2000:
            yield bytes(((signal == "logs") + 2 * (seed % 2),)) + body
    for member in _ODD_MEMBERS:
        yield b'\0{"resourceSpans":[{"resource":{%s},"scopeSpans":[{"spans":[{%s},{},{}]}]}]}' % (member, member)
        yield b'\3{"resourceLogs":[{"resource":{%s},"scopeLogs":[{"logRecords":[{%s},{},{}]}]}]}' % (member, member)
    yield b"\0" + as_json(realistic.request("traces", 1, 1))
    yield b"\1" + as_json(realistic.request("logs", 1, 1))


def json_kernel() -> Iterator[bytes]:
    yield from otlp_json()


def inflate() -> Iterator[bytes]:
    texts = (b"", b"x", bytes(5000), bytes(range(256)) * 3)
    for text, size in itertools.product(texts, range(5)):
        yield bytes((0, size, 7)) + gzip.compress(text, mtime=0)
        yield bytes((0, 20 + size, 7)) + gzip.compress(text, mtime=0) * 3
        yield bytes((1, size, 7)) + zlib.compress(text)
        yield bytes((1, size, 7)) + zlib.compress(text, wbits=-15)
        yield bytes((2, size, 7)) + zstd.compress(text)
        packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 10 + 3 * size})
        yield bytes((2, 20 + size, 7)) + packer.compress(text) + packer.flush() + zstd.compress(text)
    yield from (
        bytes((4, 0, 0)) + name for name in (b"gzip", b" GZip ", b"x-gzip", b"deflate", b"zstd", b"br", b"a\nb")
    )


def filters() -> Iterator[bytes]:
    keys = (*SPANS.fields, *LOGS.fields, "http.route", "resource.host", "scope.name", "attr:name", '"a b"')
    values = (
        "/checkout",
        "100",
        ">100",
        "<=-1.5e3",
        "[a,b]",
        "abc*",
        "*abc",
        "*b*",
        '"a \\" b"',
        '*"a b"*',
        '"a b"*',
        '*"a b"',
        "*",
        "now-15m",
        "0" * 31 + "1",
    )
    for key, value in itertools.product(keys, values):
        yield f"{key}:{value}".encode()
    yield b'-k:v !has:user.id has:k -k:[a,"b c"] k:>=5'
    for op in Op:
        given: dict[str, Any] = (
            {"value": ["a", "1"]} if op in ("in", "not_in") else {} if "exists" in op else {"value": "1"}
        )
        yield json.dumps([{"key": "durationMs", "op": op, **given}, {"key": "k", "op": op, **given}]).encode()
    yield b"k:v " * 21
    yield b"k:v" + b" " * 4000
    for odd in ("k" * 257, "\ud800", ""):
        yield json.dumps([{"key": odd, "op": "eq", "value": "v"}]).encode()
    written: tuple[Any, ...] = ("v" * 1025, ["v"] * 101, ["v"], None, "\udfff")
    for each in written:
        for op in (Op.EQ, Op.IN, Op.EXISTS):
            yield json.dumps([{"key": "k", "op": op, "value": each}]).encode()
    yield json.dumps([{"key": "k", "op": "regex", "value": "(a|b){2,3}[^c]\\d+$"}]).encode()


def cursor() -> Iterator[bytes]:
    yield b"binding\0" + msgspec.msgpack.encode((1, "a", b"b", None))
    yield b"\0" + msgspec.msgpack.encode((1, "a"))
    yield b"x\0" + msgspec.msgpack.encode((2**63, -1, "ü" * 40, bytes(16)))
    yield b"x\0" + msgspec.msgpack.encode(("x" * 400,))
    yield b"x\0AAAAAAAAAAAAAAAAAAAAAA"


def instant() -> Iterator[bytes]:
    times = (
        "now",
        "now-15m",
        "-2h",
        "now 3d",
        "2026-11-20",
        "2026-11-20T15:17:03.123456789Z",
        "2026-11-20 15:17+02:00",
    )
    epochs = (
        "0",
        "1790000000",
        "1790000000123",
        "1790000000123456",
        "1790000000123456789",
        "1.5",
        "2262-04-11T23:59:60Z",
    )
    for first, last in itertools.product((*times, *epochs), ("", "now", "2026-12-01")):
        yield f"{first}\n{last}\n24".encode()


def credentials() -> Iterator[bytes]:
    key, token = encode_project_key(bytes(range(16))), encode_token(bytes(range(32)))
    dsn = format_dsn("https://in.shop.example:4318/otlp", key, 42)
    yield f"Legacy legacy_key={key}, legacy_version=1\nDSN {dsn}\n{key}\n42".encode()
    yield f"\nBearer {token}\n\n".encode()
    yield f"{dsn}\nshop-1\n{key}".encode()
    yield f"\n\n{key}\n7".encode()


def id_token() -> Iterator[bytes]:
    header = {"alg": "EdDSA", "kid": "a", "typ": "JWT"}
    metadata = {
        "issuer": oidc_tokens.ISSUER,
        **{name: f"https://idp.example.com/{name}" for name in ("authorization_endpoint", "token_endpoint")},
        **{name: f"https://idp.example.com/{name}" for name in ("jwks_uri", "userinfo_endpoint")},
        "authorization_response_iss_parameter_supported": True,
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }
    claims = dict(oidc_tokens.CLAIMS)
    yield b"\0" + oidc_tokens.token().encode()
    headers: tuple[dict[str, Any], ...] = ({}, {"alg": "Ed25519"}, {"alg": "none"}, {"kid": "b"}, {"crit": ["x"]})
    for change in headers:
        yield b"\1" + json.dumps(header | change).encode() + b"\0" + json.dumps(claims).encode()
    changes: tuple[dict[str, Any], ...] = (
        {"aud": ["sluice", "other"], "azp": "sluice"},
        {"amr": ["pwd"], "acr": "gold", "nbf": oidc_tokens.NOW_S},
        {"at_hash": "x"},
        {"iat": 0},
        {"exp": 1},
        {"nonce": "x"},
        {"sub": "\n"},
        {"iss": "x"},
    )
    for change in changes:
        yield b"\1" + json.dumps(header).encode() + b"\0" + json.dumps(claims | change).encode()
    for kind in ("RSA", "P-256", "Ed25519"):
        yield b"\2" + oidc_tokens.key_set(oidc_tokens.jwk(kind, use="sig", key_ops=["verify"]), {"kty": "oct"})
    yield b"\3" + json.dumps(metadata).encode()
    yield b"\4" + json.dumps({"token_type": "Bearer", "id_token": "a.b.c", "access_token": "of-tests"}).encode()
    yield b"\5" + json.dumps({"error": "invalid_grant"}).encode()
    yield b"\6" + json.dumps({"sub": "1", "groups": ["a"]}).encode()


def bodies() -> Iterator[bytes]:
    names = ("Shop", "", " x", "x" * 201, "a\nb", "\ud800", "ü", 7, None)
    for name, shape in itertools.product(names, range(3)):
        yield bytes((shape,)) + json.dumps({"name": name, "slug": "shop-1"}).encode()
        yield bytes((shape,)) + json.dumps({"name": name}).encode()
    for words in (["token"], [], [""], ["a", 1, None], ["w"] * 101, "x", ["x" * 300]):
        yield b"\2" + json.dumps({"sensitiveWords": words}).encode()
        yield b"\2" + json.dumps({"exemptKeys": words}).encode()
    yield b"\1{" + b'"a":1,' * 120 + b'"b":[[]]}'
    yield b"\1" + b"[" * 1000


def source_maps() -> Iterator[bytes]:
    trace = (
        b"Error: no\n    at async new t.add [as x] (https://shop.example/a.js?v=1:1:21)\n    at /a.js:2:2\n"
        b"setup/t/<@https://shop.example/a.js:1:60"
    )
    plain: dict[str, object] = {
        "version": 3,
        "debugId": "85314830-023f-4cf1-a267-535f4e37bb17",
        "sourceRoot": "src/",
        "sources": ["../cart.ts", None, "webpack://shop/./a (b).vue?1a2b"],
        "names": ["addLine", "fillCart"],
        "mappings": "AAAA,SAASA,UAUT,uBAAqBC,E;;;gBCDF;AAAA",
        "x_minified_functions": {"t": [0, 9, 0, 42]},
    }
    sections = [{"offset": {"line": line, "column": 7}, "map": plain} for line in (0, 9)]
    for document in (plain, {"version": 3, "sections": sections}):
        yield json.dumps(document).encode() + b"\0" + trace


def fingerprint() -> Iterator[bytes]:
    for runtime in runtimes():
        for pair in read_pairs(runtime):
            yield "\0".join(pair.errors[0]).encode()
    frames = "\tat com.shop.A.b(A.java:1)\n" * 100
    causes = ("Caused by: com.shop.E: b\n" + f"\t... {count} more\n" * 20 for count in (100, 2_000, 40_000))
    yield f"E\0a\0E: a\n{frames}{''.join(causes)}".encode()  # each cause shares the frames of its wrapper many times
    yield f"panic\0a\0x.go:\n{'(0x)' * 4_000}x".encode()


def heads() -> Iterator[bytes]:
    get, post = b"GET /x HTTP/1.1\r\nHost: a\r\n", b"POST /length HTTP/1.1\r\nHost: a\r\n"
    long = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 40) for number in range(12))
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    requests = (
        get + b"\r\n",
        b"\r\n\n" + get + b"Connection: close\r\n\r\n",
        post + b"Content-Length: 3\r\n\r\nabc",
        post + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
        post + b"Content-Length: 2000\r\n\r\nabc",
        post + b"Content-Length: 3\r\nX-Spent: 1\r\n\r\nabc",
        chunked + b"1\r\nx\r\nA;e=1\r\n0123456789\r\n0\r\n\r\n",
        chunked + b"0\r\nT: t\r\n\r\n",
        chunked + b"zz\r\n",
        chunked + b"1\r\nx\r\n0\r\n" + long,
        get + long,
        get + long[:400] + b"\r\n",
        b"GET /" + b"x" * 600,
        b"GET /x HTTP/1.0\r\n\r\n",
        b"GET /x HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /x HTTP/1.1\nHost: a\n\n",
        b"FETCH /x HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        get + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        get + b"bad header\r\n\r\n",
    )
    for number, (first, second) in enumerate(itertools.product(requests, (b"", *requests))):
        yield bytes((number % 256,)) + first + second


def return_path() -> Iterator[bytes]:
    for text in url_standard.EXAMPLES:
        yield text.encode()


def grpc_frames() -> Iterator[bytes]:
    prefix = frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0)
    call = frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x83\x86")
    data = frames.frame(frames.DATA, frames.END_STREAM, 1, b"\0\0\0\0\0")
    begun = frames.frame(frames.HEADERS, 0, 3, b"\x83")
    beside = [
        frames.frame(kind, 0, stream, bytes(8))
        for kind in (*range(2, 9), frames.CONTINUATION, frames.UNKNOWN)
        for stream in (0, 1)
    ]
    yield b"0GET / HTTP/1.1\r\n\r\n"
    yield b"1" + prefix + call + data + b"".join(frames.frame(kind, 1, 0) for kind in (frames.SETTINGS, frames.PING))
    for number, one in enumerate(beside):
        yield bytes((number,)) + prefix + call + one + data
        yield bytes((number,)) + prefix + begun + one
        yield bytes((number,)) + prefix + call + one * 60 + data[:10]
    continuation = frames.frame(frames.CONTINUATION, 0, 3, bytes(300))
    yield b"2" + prefix + begun + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3, b"\x86") + call
    yield b"3" + prefix + begun + continuation * 20
    yield b"4" + prefix + begun + frames.frame(frames.CONTINUATION, 0, 3, bytes(16_384)) * 2
    yield b"5" + prefix + call + frames.frame(frames.DATA, 0, 1, bytes(16_385))


def saml() -> Iterator[bytes]:
    return saml_target.examples()


def scim_filters() -> Iterator[bytes]:
    return scim_filters_target.examples()


def scim_patch() -> Iterator[bytes]:
    return scim_patch_target.examples()


def scim_users() -> Iterator[bytes]:
    return scim_users_target.examples()


def webhook_signatures() -> Iterator[bytes]:
    digest, body = "0" * 64, b'{"id":"evt_1"}'
    encoded = base64.b64encode(bytes(32)).decode()
    for header in ("", digest, digest.upper(), f"sha256={digest}", f"v0={digest}", digest + digest, f"v1,{encoded}"):
        yield b"%s\n1790000000\nmsg_1\n%s" % (header.encode(), body)
    for header in (f"v1={digest},v1={digest}", f"t=1790000000,v1={digest},v0={digest}", f"v1,{encoded} v1a,{encoded}"):
        yield b"%s\n1790000300\nmsg_1\n%s" % (header.encode(), body)
    yield b"t=1790000000,t=1790000000,v1=\n-1\n\xff\n"


def payment_events() -> Iterator[bytes]:
    at, before = 1_790_000_000, processor.subscription(status="past_due")
    events = [
        processor.event("customer.subscription.created", before, at=at, name="evt_1"),
        processor.event(
            "customer.subscription.updated",
            processor.subscription(prices=[processor.price("price_x", "business")], is_basil=False),
            at=at,
            name="evt_2",
            previous={"status": "past_due", "items": {"data": before["items"]["data"]}, "current_period_end": 1},
        ),
        processor.event(
            "customer.subscription.deleted", processor.subscription(status="canceled"), at=at, name="evt_3"
        ),
        processor.event("customer.subscription.paused", processor.subscription(status="paused"), at=at, name="evt_4"),
        processor.event("invoice.paid", processor.invoice(), at=at + 1, name="evt_5"),
        processor.event("invoice.payment_failed", processor.invoice(is_basil=False), at=at + 1, name="evt_6"),
        processor.event("checkout.session.completed", {"customer": {"id": "cus_1"}}, at=at, name="evt_7"),
        processor.event("customer.created", {"id": "cus_1"}, at=at, name="evt_8"),
    ]
    yield from (processor.encode(one) for one in events)
    yield b"\0".join(processor.encode(one) for one in events[:4])


def scm_events() -> Iterator[bytes]:
    return scm_events_target.examples()


def tracker_events() -> Iterator[bytes]:
    return tracker_events_target.examples()


def chat_events() -> Iterator[bytes]:
    return chat_events_target.examples()


def code_messages() -> Iterator[bytes]:
    return code_messages_target.examples()


def proof_bundles() -> Iterator[bytes]:
    bundle = shapes.example(shapes.LEDGER)
    for kind in shapes.EVIDENCE:
        yield json.dumps(bundle | {"claims": [shapes.example(shapes.claim(kind))]}).encode()
    subject = [{"digest": {"gitCommit": "0123456"}, "annotations": {"a": [1.5, None, "b"]}}]
    head = {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": PREDICATE_TYPE}
    statement = json.dumps(head | {"predicate": shapes.example(shapes.PREDICATE)}).encode()
    yield statement
    for payload, payload_type in ((statement, dsse.STATEMENT_MEDIA_TYPE), (b"{}", dsse.BUNDLE_TYPE)):
        yield dsse.encode(dsse.sign(payload, payload_type, Ed25519PrivateKey.from_private_bytes(bytes(31) + b"1"), "k"))


SEEDS: Final = (
    proof_bundles,
    kernel,
    otlp_json,
    json_kernel,
    inflate,
    filters,
    cursor,
    instant,
    credentials,
    id_token,
    bodies,
    fingerprint,
    source_maps,
    heads,
    return_path,
    grpc_frames,
    saml,
    scim_filters,
    scim_patch,
    scim_users,
    webhook_signatures,
    payment_events,
    scm_events,
    tracker_events,
    chat_events,
    code_messages,
)


def main() -> None:
    for seeds in SEEDS:
        folder = GROWN / seeds.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(seeds()):
            (folder / f"seed-{number}").write_bytes(data)


if __name__ == "__main__":
    main()
