"""Azure Blob Storage, with the key of a storage account or a shared access signature (SAS).

Source: learn.microsoft.com, "Put Blob" and "Authorize with Shared Key", version 2021-12-02 of the service.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from yarl import URL

from control.export.destinations import replies
from control.export.destinations.interfaces import DestinationError, StoredObject
from control.export.destinations.s3 import encode_path
from control.outbound.egress import Egress, EgressError, HttpReply

VERSION: Final = "2021-12-02"
DIGEST_HEADER: Final = "x-ms-meta-row_digest"
CONTENT_TYPE: Final = "application/vnd.apache.parquet"


class AzureStore:
    """One container. `base_url`: of the container, without a slash at its end. One of `account_key` and `sas_token`.
    Raises DestinationError for a key that is not base64.
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
        """As `ObjectStore` has it: a conditional put."""
        headers = {"x-ms-blob-type": "BlockBlob", DIGEST_HEADER: row_digest}
        reply = await self._send("PUT", key, headers, body)
        if reply.status == 201:
            return None
        # An existing blob is 409; so are a container that is being deleted and the like, which have no blob to find.
        if reply.status not in (409, 412) and replies.error_code(reply) != "UnauthorizedBlobOverwrite":
            raise replies.failed(reply)
        found = await self._send("HEAD", key, {}, b"")
        if found.status != 200:
            raise replies.failed(found)
        size = found.headers.get("Content-Length", "")
        return StoredObject(found.headers.get(DIGEST_HEADER, ""), int(size) if size.isdigit() else 0)

    async def _send(self, method: str, key: str, headers: dict[str, str], body: bytes) -> HttpReply:
        url = f"{self._base_url}/{encode_path(key)}"
        sent = {**headers, "x-ms-version": VERSION, "x-ms-date": format_datetime(self._now(), usegmt=True)}
        only_new = "*" if method == "PUT" else ""
        if self._account_key is None:
            url += f"?{(self._sas_token or '').removeprefix('?')}"
        else:
            path = URL(url).raw_path  # as the client sends it, and Azure signs it
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
        # Verb, encoding, language, length, MD5, type, date, and five conditions, of which If-None-Match is the third.
        lines = (method, "", "", length, "", content_type, "", "", "", only_new, "", "")
        to_sign = "\n".join(lines) + f"\n{own}/{self._storage_account}{path}"
        signature = base64.b64encode(hmac.digest(self._account_key or b"", to_sign.encode(), "sha256")).decode()
        return f"SharedKey {self._storage_account}:{signature}"


def _decoded(account_key: str) -> bytes:
    try:
        return base64.b64decode(account_key, validate=True)
    except (binascii.Error, ValueError):
        raise DestinationError("config.accountKey is not base64.", permanent=True) from None
