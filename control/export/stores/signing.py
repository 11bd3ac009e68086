"""Signatures of requests to S3 (AWS Signature Version 4) and to the XML interface of Google Cloud Storage, which is the
same under other names. Pure.

Sources: docs.aws.amazon.com "Create a signed AWS API request"; cloud.google.com/storage/docs/authentication/signatures.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

UNRESERVED: Final = "-_.~"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The names of a signature: its algorithm, the prefix of its headers and of its key, its service and last word."""

    algorithm: str
    headers: str
    key: str
    service: str
    terminator: str


AWS: Final = Scheme("AWS4-HMAC-SHA256", "x-amz-", "AWS4", "s3", "aws4_request")
GOOGLE: Final = Scheme("GOOG4-HMAC-SHA256", "x-goog-", "GOOG4", "storage", "goog4_request")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Of an account; `session_token`: of temporary ones."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def encode_path(path: str) -> str:
    """A path as it is signed and sent: every character but slashes and unreserved ones is encoded, once."""
    return quote(path, safe="/" + UNRESERVED)


def sign(
    scheme: Scheme,
    credentials: Credentials,
    region: str,
    method: str,
    host: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
) -> dict[str, str]:
    """The headers to send: those given, lower-case, and the time, the digest of the body and the signature. `path` is
    encoded; there is no query.
    """
    time = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    signed = {**headers, f"{scheme.headers}date": time, f"{scheme.headers}content-sha256": digest}
    if credentials.session_token is not None:
        signed[f"{scheme.headers}security-token"] = credentials.session_token
    named = {**signed, "host": host}
    names = ";".join(sorted(named))
    lines = "".join(f"{name}:{' '.join(named[name].split())}\n" for name in sorted(named))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"{time[:8]}/{region}/{scheme.service}/{scheme.terminator}"
    to_sign = "\n".join((scheme.algorithm, time, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = (scheme.key + credentials.secret_access_key).encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    signed["authorization"] = (
        f"{scheme.algorithm} Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, "
        f"Signature={signature}"
    )
    return signed
