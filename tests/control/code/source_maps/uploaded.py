"""Source maps of tests, and their upload."""

import hashlib
import json
from typing import Any, Final

from tests.control.conftest import Control

MAPS: Final = "/orgs/acme/projects/web/source-maps"
RELEASE: Final = "web@1.4.0"
MINIFIED: Final = "TypeError: no\n    at t (https://shop.example/a.js:1:21)\n    at https://shop.example/a.js:1:3"
SHOWN: Final = "TypeError: no\n    at addLine (src/cart.ts:11:1)\n    at src/cart.ts:1:1"


def document(source: str = "../src/cart.ts", **more: Any) -> dict[str, Any]:
    """A map in which `t`, declared in the first line, is `addLine`."""
    return {
        "version": 3,
        "sources": [source],
        "sourcesContent": ["export const secret = 4711;"],
        "names": ["addLine"],
        "mappings": "AAAA,SAASA,UAUT",
        "x_minified_functions": {"t": [0, 9]},
    } | more


async def upload(control: Control, sent: object, token: str | None = None, path: str = MAPS, **query: str) -> Any:
    """Status and body; of `a.js` in RELEASE, unless the query says so."""
    parameters = {"release": RELEASE, "url": "https://shop.example/a.js"} | query
    status, body, _ = await control.call("POST", path, sent, token, params=parameters)
    return status, body


def digest_of(sent: object) -> str:
    return hashlib.sha256(json.dumps(sent, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
