"""What steps of a request leave for later ones on it."""

from typing import Final

from aiohttp import web

WIRE_BYTES: Final = web.RequestKey("wire_bytes", int)  # of the body, once it is read
ITEMS: Final = web.RequestKey("items", int)  # spans or log records in it, once it is decoded
