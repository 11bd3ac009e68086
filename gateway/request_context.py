"""Values that steps of a request store on it for later steps."""

from typing import Final

from aiohttp import web

WIRE_BYTES: Final = web.RequestKey("wire_bytes", int)  # of the body, once it is read
ITEMS: Final = web.RequestKey("items", int)  # spans or log records in it, once it is decoded
