"""A call as the checks of every protocol see it."""

from collections.abc import Iterable
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from chassis.auth.project_credential import client_key
from chassis.http.request_ids import resolve_request_id
from gateway.grpc.core_socket import peer_address


class GrpcCall(dict[web.RequestKey[Any], Any]):
    """Peer and metadata of a call, and the values that steps store for later ones (`ClientRequest`)."""

    __slots__ = ("client_key", "headers", "remote", "request_id")

    def __init__(self, peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """`peer` as the core names it; binary metadata (`-bin`) is ignored."""
        super().__init__()
        self.remote = peer_address(peer)
        texts = [(name, value) for name, value in metadata if isinstance(value, str)]
        self.headers: CIMultiDict[str] = CIMultiDict(texts)
        self.client_key = client_key(self.headers.get("x-legacy-auth"), self.headers.get("authorization"), "")
        self.request_id = resolve_request_id(self.headers.get("x-request-id", ""))
