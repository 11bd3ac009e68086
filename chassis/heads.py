"""A request head that the parser gave up on: as much of it as is needed to refuse it in the manner of its path."""

import re
from typing import Final

from aiohttp import hdrs
from aiohttp.http import HttpVersion, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

METHODS: Final = frozenset(hdrs.METH_ALL)

_FIRST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (/[!-~]{0,2048}) HTTP/1\.([01])\r?\n")
_CONTENT_TYPE: Final = re.compile(rb"\r?\nContent-Type:[ \t]*([!-~]{1,128})[ \t]*\r?\n", re.IGNORECASE)


def first_line(data: bytes) -> RawRequestMessage | None:
    """Method, path and, if it can be found, media type of a head; None when `data` does not begin with a head."""
    line = _FIRST_LINE.match(data)
    if line is None:
        return None
    method, path = line[1].decode(), line[2].decode()
    headers = CIMultiDict[str]()
    content_type = _CONTENT_TYPE.search(data)
    if content_type is not None:
        headers["Content-Type"] = content_type[1].decode()
    try:
        url = URL(path, encoded=True)
    except ValueError:
        return None
    return RawRequestMessage(
        method=method,
        path=path,
        version=HttpVersion(1, int(line[3])),
        headers=CIMultiDictProxy(headers),
        raw_headers=(),
        should_close=True,
        compression=None,
        upgrade=False,
        chunked=False,
        url=url,
    )
