"""The object store of a config."""

from typing import Final

from msgspec import UnsetType
from yarl import URL

from control.export.config import BlobProvider, BlobstoreConfig
from control.export.stores.azure import AzureStore
from control.export.stores.s3 import Place, S3Store
from control.export.stores.signing import GOOGLE, Credentials
from control.export.stores.store import ObjectStore, ObjectStoreError
from control.outbound.egress import Egress
from control.outbound.egress_policy import parse_url

_GOOGLE: Final = "https://storage.googleapis.com"


def open_store(config: BlobstoreConfig, egress: Egress, account: str) -> ObjectStore:
    """The store of a complete config. `account`: who sends, for the bounds of the client. Raises ObjectStoreError."""
    if not config.conditional_puts and config.provider is not BlobProvider.S3:
        raise ObjectStoreError("config.conditionalPuts may be false for S3-compatible stores only.", permanent=True)
    if config.provider is BlobProvider.AZURE:
        name, container = _given(config.account), _given(config.container)
        base = _endpoint(config.endpoint, f"https://{name}.blob.core.windows.net")
        key, token = _optional(config.account_key), _optional(config.sas_token)
        return AzureStore(
            egress, f"{str(base).rstrip('/')}/{container}", name, account, account_key=key, sas_token=token
        )
    credentials = Credentials(
        _given(config.access_key_id), _given(config.secret_access_key), _optional(config.session_token)
    )
    bucket = _given(config.bucket)
    if config.provider is BlobProvider.GCS:
        place = _place(_endpoint(config.endpoint, _GOOGLE), bucket, path_style=True)
        return S3Store(egress, place, credentials, _optional(config.region) or "auto", account, scheme=GOOGLE)
    region = _given(config.region)
    endpoint = _endpoint(config.endpoint, f"https://s3.{region}.amazonaws.com")
    place = _place(endpoint, bucket, path_style=config.path_style)
    return S3Store(egress, place, credentials, region, account, conditional=config.conditional_puts)


def _place(endpoint: URL, bucket: str, *, path_style: bool) -> Place:
    host = endpoint.host_subcomponent or ""  # an IPv6 address in brackets
    name = host if path_style else f"{bucket}.{host}"
    authority = name if endpoint.is_default_port() else f"{name}:{endpoint.port}"
    path = endpoint.raw_path.rstrip("/") + (f"/{bucket}" if path_style else "")
    return Place(f"{endpoint.scheme}://{authority}", authority, path)


def _endpoint(given: str | UnsetType, default: str) -> URL:
    if isinstance(given, UnsetType):
        return URL(default)
    try:
        endpoint = parse_url(given, allow_http=True)  # whether http is allowed is the client's matter
    except ValueError:
        endpoint = None
    if endpoint is None or endpoint.query_string:
        raise ObjectStoreError("config.endpoint is not a URL of a server.", permanent=True)
    return endpoint


def _given(value: str | UnsetType) -> str:
    if isinstance(value, UnsetType):
        raise ObjectStoreError("The config is not complete.", permanent=True)
    return value


def _optional(value: str | UnsetType) -> str | None:
    return None if isinstance(value, UnsetType) else value
