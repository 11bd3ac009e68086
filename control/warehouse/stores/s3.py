"""S3, compatible stores, and Google Cloud Storage by its XML interface."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from control.outbound.egress import Egress, EgressError, HttpReply
from control.warehouse.stores import replies
from control.warehouse.stores.signing import AWS, Credentials, Scheme, encode_path, sign
from control.warehouse.stores.store import StoredObject

CONTENT_TYPE: Final = "application/vnd.apache.parquet"
_CONFLICTS: Final = 5  # answers that another request for the same key is going on
_PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket: the beginning of its URLs, without a slash at the end, and the path of the bucket (empty: the host
    names it).
    """

    base_url: str
    host: str
    path: str


class S3Store:
    """One bucket. `account` bounds look-ups of names."""

    def __init__(
        self,
        egress: Egress,
        place: Place,
        credentials: Credentials,
        region: str,
        account: str,
        *,
        scheme: Scheme = AWS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._egress = egress
        self._place = place
        self._credentials = credentials
        self._region = region
        self._account = account
        self._scheme = scheme
        self._now = now

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        """As `ObjectStore` has it: a conditional put."""
        only_new = {"if-none-match": "*"} if self._scheme is AWS else {"x-goog-if-generation-match": "0"}
        headers = {"content-type": CONTENT_TYPE, self._digest_header: row_digest, **only_new}
        for attempt in range(_CONFLICTS):
            reply = await self._send("PUT", key, headers, body)
            if 200 <= reply.status < 300:
                return None
            if reply.status == 412:
                break
            if reply.status != 409:
                raise replies.failed(reply)
            await asyncio.sleep(_PAUSE_S * attempt)  # S3: another conditional put of the key goes on
        return await self._find(key)

    async def _find(self, key: str) -> StoredObject:
        reply = await self._send("HEAD", key, {}, b"")
        if reply.status != 200:
            raise replies.failed(reply)
        size = reply.headers.get("Content-Length", "")
        return StoredObject(reply.headers.get(self._digest_header, ""), int(size) if size.isdigit() else 0)

    @property
    def _digest_header(self) -> str:
        return f"{self._scheme.headers}meta-row-digest"

    async def _send(self, method: str, key: str, headers: dict[str, str], body: bytes) -> HttpReply:
        path = encode_path(f"{self._place.path}/{key}")
        signed = sign(
            self._scheme, self._credentials, self._region, method, self._place.host, path, headers, body, self._now()
        )
        url = self._place.base_url + path
        try:
            if method == "HEAD":
                return await self._egress.head(url, signed, account=self._account)
            return await self._egress.put(url, body, signed, account=self._account)
        except EgressError as error:
            raise replies.not_reached(error) from error
