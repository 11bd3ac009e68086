"""A call as the checks of every protocol see it."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDict

from chassis.auth.project_credential import client_key
from chassis.http.request_ids import resolve_request_id


class GrpcCall(dict[web.RequestKey[Any], Any]):
    """Peer and metadata of a call, and the values that steps store for later ones (`ClientRequest`)."""

    __slots__ = ("client_key", "headers", "remote", "request_id")

    def __init__(self, peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """`peer` as gRPC names it; binary metadata (`-bin`) is ignored."""
        super().__init__()
        self.remote = peer_address(peer)
        texts = [(name, value) for name, value in metadata if isinstance(value, str)]
        self.headers: CIMultiDict[str] = CIMultiDict(texts)
        self.client_key = client_key(self.headers.get("x-legacy-auth"), self.headers.get("authorization"), "")
        self.request_id = resolve_request_id(self.headers.get("x-request-id", ""))


@lru_cache(1_024)
def peer_address(peer: str) -> str:
    """The IP address in `ipv4:127.0.0.1:50000` or `ipv6:[::1]:50000`; empty for other kinds of peers."""
    kind, _, address = unquote(peer).partition(":")
    return address.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""
