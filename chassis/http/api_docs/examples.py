"""A curl command for an operation: values that have an example are filled in; the base URL, credentials and other path
parameters are shell variables, and a body without an example is the file `body`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_CAMEL_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_IN_PATH: Final = re.compile(r"{(\w+)}")
_HEADERS: Final = {
    "bearerAuth": "Authorization: Bearer $TOKEN",
    "legacyAuth": "X-Legacy-Auth: Legacy legacy_key=$KEY",
}
_JSON: Final = "application/json"


def curl_command(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """The command, one option per line."""
    parameters = operation.get("parameters", ())
    query = [each for each in parameters if each["in"] == "query" and "example" in each]
    flags = {"get": "-G " if query else "", "head": "-I "}.get(method, f"-X {method.upper()} ")
    words = [f'curl {flags}"$BASE{_fill_path(path, parameters)}"']
    words += [f'-H "{_HEADERS[name]}"' for name in _first_credential(operation)]
    words += [f"--data-urlencode {_shell_quote(_pair(each))}" for each in query]
    words += _body(operation.get("requestBody"))
    return " \\\n     ".join(words)


def _fill_path(path: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    examples = {each["name"]: str(each["example"]) for each in parameters if "example" in each}
    return _IN_PATH.sub(lambda match: examples.get(match[1]) or f"${_CAMEL_BOUNDARY.sub('_', match[1]).upper()}", path)


def _first_credential(operation: Mapping[str, Any]) -> list[str]:
    return [name for name in next(iter(operation["security"]), {}) if name in _HEADERS]


def _body(body: Mapping[str, Any] | None) -> list[str]:
    if body is None:
        return []
    media = _JSON if _JSON in body["content"] else next(iter(body["content"]))
    content = body["content"][media]
    data = _shell_quote(json.dumps(content["example"], ensure_ascii=False)) if "example" in content else "@body"
    return [f'-H "Content-Type: {media}"', f"--data-binary {data}"]


def _pair(parameter: Mapping[str, Any]) -> str:
    return f"{parameter['name']}={parameter['example']}"


def _shell_quote(text: str) -> str:
    """The text in single quotes, escaped for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
