"""Object stores.

S3, compatible stores, and Google Cloud Storage by its XML interface. Requests are signed with AWS Signature Version 4.
Google Cloud Storage uses the same method with other names. Sources: docs.aws.amazon.com "Create a signed AWS API
request"; cloud.google.com/storage/docs/authentication/signatures.

Azure Blob Storage, with the key of a storage account or a shared access signature (SAS). Source: learn.microsoft.com,
"Put Blob" and "Authorize with Shared Key", version 2021-12-02 of the service.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final
from urllib.parse import quote

from yarl import URL

from control.export.destinations import replies
from control.export.destinations.interfaces import DestinationError, StoredObject
from control.outbound.egress import Egress, EgressError, HttpReply

UNRESERVED: Final = "-_.~"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The names in a signature: its algorithm, the prefix of its headers, the prefix of its key, its service and its
    last word.
    """

    algorithm: str
    headers: str
    key: str
    service: str
    terminator: str


AWS: Final = Scheme("AWS4-HMAC-SHA256", "x-amz-", "AWS4", "s3", "aws4_request")
GOOGLE: Final = Scheme("GOOG4-HMAC-SHA256", "x-goog-", "GOOG4", "storage", "goog4_request")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of an account. `session_token`: only for temporary credentials."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def encode_path(path: str) -> str:
    """Encode a path as it is signed and sent: every character except slashes and unreserved characters is encoded
    once.
    """
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
    """The headers to send: the given headers in lower case, and headers with the time, the digest of the body and the
    signature. `path` is encoded. There is no query.
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


CONTENT_TYPE: Final = "application/vnd.apache.parquet"
_CONFLICTS: Final = 5  # answers that another request for the same key is in progress
_PAUSE_S: Final = 0.5
_EXISTS: Final = (412, 304)  # MinIO answered 304 until 2024


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket: the beginning of its URLs, without a slash at the end, and the path of the bucket (empty if the host
    names the bucket).
    """

    base_url: str
    host: str
    path: str


@dataclass(frozen=True, slots=True)
class S3Store:
    """One bucket. `account` bounds look-ups of names. `conditional`: False for a store without conditional puts; the
    key is then looked up before a put, and the object is read after it (ADR 029 describes what that guarantees).
    """

    egress: Egress
    place: Place
    credentials: Credentials
    region: str
    account: str
    scheme: Scheme = field(default=AWS, kw_only=True)
    conditional: bool = field(default=True, kw_only=True)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), kw_only=True)

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        """Store a new object, as `ObjectStore` describes."""
        headers = {"content-type": CONTENT_TYPE, self._digest_header: row_digest}
        put = self._put_conditionally if self.conditional else self._put_and_read_back
        return await put(key, body, headers)

    async def _put_conditionally(self, key: str, body: bytes, headers: dict[str, str]) -> StoredObject | None:
        only_new = {"if-none-match": "*"} if self.scheme is AWS else {"x-goog-if-generation-match": "0"}
        for attempt in range(_CONFLICTS):
            reply = await self._send("PUT", key, headers | only_new, body)
            if 200 <= reply.status < 300:
                return None
            if reply.status in _EXISTS:
                break
            if reply.status != 409:
                raise self._failed(reply)
            await asyncio.sleep(_PAUSE_S * attempt)  # S3: another conditional put of the key is in progress
        found = await self._find(key)
        if found is None:
            raise DestinationError(replies.CONTRADICTED)
        return found

    async def _put_and_read_back(self, key: str, body: bytes, headers: dict[str, str]) -> StoredObject | None:
        existing = await self._find(key)
        if existing is not None:
            return existing
        reply = await self._send("PUT", key, headers, body)
        if not 200 <= reply.status < 300:
            raise self._failed(reply)
        found = await self._find(key)
        if found is None:
            raise DestinationError("The store accepted an object, but the object does not exist afterwards.")
        return None if found.row_digest == headers[self._digest_header] else found

    async def _find(self, key: str) -> StoredObject | None:
        """Find the object under a key. Returns None if there is none. Raises DestinationError."""
        reply = await self._send("HEAD", key, {}, b"")
        if reply.status == 200:
            size = reply.headers.get("Content-Length", "")
            return StoredObject(reply.headers.get(self._digest_header, ""), int(size) if size.isdigit() else 0)
        if reply.status == 404:
            return None
        with suppress(DestinationError):  # the answer to HEAD has no body that would name the cause
            explained = await self._send("GET", key, {"range": "bytes=0-0"}, b"")
            reply = explained if explained.status == reply.status else reply
        raise self._failed(reply)

    def _failed(self, reply: HttpReply) -> DestinationError:
        has_condition = self.conditional and self.scheme is AWS
        return replies.failed(reply, region=self.region, has_condition=has_condition)

    @property
    def _digest_header(self) -> str:
        return f"{self.scheme.headers}meta-row-digest"

    async def _send(self, method: str, key: str, headers: dict[str, str], body: bytes) -> HttpReply:
        path = encode_path(f"{self.place.path}/{key}")
        signed = sign(
            self.scheme, self.credentials, self.region, method, self.place.host, path, headers, body, self.now()
        )
        url = self.place.base_url + path
        try:
            if method == "HEAD":
                return await self.egress.head(url, signed, account=self.account)
            if method == "GET":
                return await self.egress.get(url, signed, account=self.account)
            return await self.egress.put(url, body, signed, account=self.account)
        except EgressError as error:
            raise replies.not_reached(error) from error


AZURE_VERSION: Final = "2021-12-02"
AZURE_DIGEST_HEADER: Final = "x-ms-meta-row_digest"


class AzureStore:
    """One container. `base_url`: the URL of the container, without a slash at the end. Either `account_key` or
    `sas_token` is given. Raises DestinationError for a key that is not base64.
    """

    def __init__(
        self,
        egress: Egress,
        base_url: str,
        storage_account: str,
        account: str,
        *,
        account_key: str | None,
        sas_token: str | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._egress = egress
        self._base_url = base_url
        self._storage_account = storage_account
        self._account = account
        self._account_key = None if account_key is None else _decoded(account_key)
        self._sas_token = sas_token
        self._now = now

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        """Store a new object by a conditional put, as `ObjectStore` describes."""
        headers = {"x-ms-blob-type": "BlockBlob", AZURE_DIGEST_HEADER: row_digest}
        reply = await self._send("PUT", key, headers, body)
        if reply.status == 201:
            return None
        # An existing blob is answered with 409. So are, for example, containers that are being deleted, in which no
        # blob is found.
        if reply.status not in (409, 412) and replies.error_code(reply) != "UnauthorizedBlobOverwrite":
            raise replies.failed(reply)
        found = await self._send("HEAD", key, {}, b"")
        if found.status != 200:
            raise replies.failed(found)
        size = found.headers.get("Content-Length", "")
        return StoredObject(found.headers.get(AZURE_DIGEST_HEADER, ""), int(size) if size.isdigit() else 0)

    async def _send(self, method: str, key: str, headers: dict[str, str], body: bytes) -> HttpReply:
        url = f"{self._base_url}/{encode_path(key)}"
        sent = {**headers, "x-ms-version": AZURE_VERSION, "x-ms-date": format_datetime(self._now(), usegmt=True)}
        only_new = "*" if method == "PUT" else ""
        if self._account_key is None:
            url += f"?{(self._sas_token or '').removeprefix('?')}"
        else:
            path = URL(url).raw_path  # the path as the client sends it and Azure signs it
            sent["Authorization"] = self._authorization(method, path, sent, body, only_new)
        try:
            if method == "HEAD":
                return await self._egress.head(url, sent, account=self._account)
            sent |= {"Content-Type": CONTENT_TYPE, "If-None-Match": only_new}
            return await self._egress.put(url, body, sent, account=self._account)
        except EgressError as error:
            raise replies.not_reached(error) from error

    def _authorization(self, method: str, path: str, headers: dict[str, str], body: bytes, only_new: str) -> str:
        length, content_type = (str(len(body)), CONTENT_TYPE) if body else ("", CONTENT_TYPE if method == "PUT" else "")
        own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
        # Verb, encoding, language, length, MD5, type, date, and five conditions, the third of which is If-None-Match.
        lines = (method, "", "", length, "", content_type, "", "", "", only_new, "", "")
        to_sign = "\n".join(lines) + f"\n{own}/{self._storage_account}{path}"
        signature = base64.b64encode(hmac.digest(self._account_key or b"", to_sign.encode(), "sha256")).decode()
        return f"SharedKey {self._storage_account}:{signature}"


def _decoded(account_key: str) -> bytes:
    try:
        return base64.b64decode(account_key, validate=True)
    except (binascii.Error, ValueError):
        raise DestinationError("config.accountKey is not base64.", permanent=True) from None
