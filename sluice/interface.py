"""The OpenAPI document of all services as data. A service that runs alone serves it at `/docs`.

Such a service cannot import the other services, and the proxy in front of them may route `/docs` to any of them.
"""

import json
from importlib.resources import files
from typing import Any, Final

import msgspec

FILE_NAME: Final = "openapi.json"


def load_document() -> dict[str, Any]:
    """The document of this release, from `openapi.json`."""
    document: dict[str, Any] = msgspec.json.decode(files("sluice").joinpath(FILE_NAME).read_bytes())
    return document


def split_lines(value: Any, depth: int) -> list[str]:
    """Fragments of compact JSON, with a line break between the members of objects down to `depth`."""
    if not depth or not isinstance(value, dict) or not value:
        return [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    members = (f"{json.dumps(name)}:{''.join(split_lines(each, depth - 1))}" for name, each in value.items())
    return ["{\n", ",\n".join(members), "\n}"]
