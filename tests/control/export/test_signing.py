"""Signatures as botocore makes them, and as AWS publishes them."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import botocore.auth  # type: ignore[import-untyped]
import botocore.awsrequest  # type: ignore[import-untyped]
import botocore.credentials  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from control.export.destinations.object_stores import AWS, GOOGLE, Credentials, encode_path, sign

NOW = datetime(2026, 11, 20, 15, 17, 3, tzinfo=UTC)
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEY = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60).filter(
    lambda key: "//" not in key and not key.startswith("/") and "." not in key.split("/")
)


def oracle(method: str, url: str, headers: dict[str, str], body: bytes, token: str | None) -> Any:
    """The signature of botocore."""
    credentials = botocore.credentials.Credentials("AKIDEXAMPLE", SECRET, token)
    auth = botocore.auth.S3SigV4Auth(credentials, "s3", "eu-central-1")
    request = botocore.awsrequest.AWSRequest(method, url, headers=headers, data=body)
    request.context["payload_signing_enabled"] = True
    request.context["timestamp"] = NOW.strftime("%Y%m%dT%H%M%SZ")
    auth._modify_request_before_signing(request)
    canonical = auth.canonical_request(request)
    request.headers["Authorization"] = ""
    to_sign = auth.string_to_sign(request, canonical)
    return auth.signature(to_sign, request)


@settings(max_examples=50)
@given(KEY, st.binary(max_size=20), st.sampled_from(["PUT", "HEAD"]), st.sampled_from([None, "token/+="]))
def test_as_botocore(key: str, body: bytes, method: str, token: str | None) -> None:
    path = encode_path(f"/bucket/{key}")
    headers = {"content-type": "application/x", "if-none-match": "*", "x-amz-meta-row-digest": "ab"}
    credentials = Credentials("AKIDEXAMPLE", SECRET, token)
    signed = sign(AWS, credentials, "eu-central-1", method, "s3.example.com", path, headers, body, NOW)
    given_headers = {**headers, "x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
    expected = oracle(method, f"https://s3.example.com{path}", given_headers, body, token)
    assert signed["authorization"].endswith(f"Signature={expected}")


def test_google_has_other_names() -> None:
    credentials = Credentials("GOOGEXAMPLE", SECRET)
    signed = sign(
        GOOGLE, credentials, "auto", "PUT", "storage.googleapis.com", "/b/k", {"x-goog-meta-a": "b"}, b"", NOW
    )
    assert signed["authorization"].startswith(
        "GOOG4-HMAC-SHA256 Credential=GOOGEXAMPLE/20261120/auto/storage/goog4_request, "
        "SignedHeaders=host;x-goog-content-sha256;x-goog-date;x-goog-meta-a, Signature="
    )
    assert not [name for name in signed if name.startswith("x-amz")]


def test_the_published_example() -> None:
    """docs.aws.amazon.com, "Signature Calculations for the Authorization Header", PUT Object."""
    headers = {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    signed = sign(
        AWS,
        Credentials("AKIAIOSFODNN7EXAMPLE", secret),
        "us-east-1",
        "PUT",
        "examplebucket.s3.amazonaws.com",
        "/test%24file.text",
        headers,
        b"Welcome to Amazon S3.",
        datetime(2013, 5, 24, tzinfo=UTC),
    )
    assert signed["authorization"].endswith(
        "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    )


def test_no_representation_has_secrets() -> None:
    credentials = Credentials("a", SECRET, "t")
    for text in (repr(credentials), str(credentials)):
        assert SECRET not in text
        assert "'t'" not in text
