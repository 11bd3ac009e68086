"""Every answer that the tests of the query service see, held against the service's own document, to the last field."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs

UNDESCRIBED = (405, 415, 501)  # of HTTP, wherever it is spoken wrongly; 415 where there should be no body at all


class Interface:
    """What `/openapi.json` announces. Structures are closed: a field that is not in the document is a fault."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._components = {"schemas": {name: closed(each) for name, each in document["components"]["schemas"].items()}}
        self._paths = [(re.compile(re.sub(r"{\w+}", "[^/]+", path)), path) for path in document["paths"]]
        self._validator = lru_cache(maxsize=None)(self._made)

    def check(self, method: str, path: str, status: int, headers: Mapping[str, str], text: str) -> None:
        """AssertionError when the answer is not as announced."""
        template = next((template for pattern, template in self._paths if pattern.fullmatch(path)), None)
        if template is None or (status in UNDESCRIBED and str(status) not in self._answers(template, method)):
            return
        answers = self._answers(template, method)
        if str(status) not in answers:
            raise AssertionError(f"{method} {template} does not announce {status}: {text[:500]}")
        self._check_headers(template, status, self._resolved(answers[str(status)]), headers)
        faults = [
            f"{'.'.join(map(str, fault.instance_path))}: {fault.message[:300]}"
            for fault in self._validator(template, method, status).iter_errors(json.loads(text))
        ]
        if faults:
            raise AssertionError(f"{method} {template}, {status}: " + "\n".join(faults[:10]))

    def _check_headers(self, template: str, status: int, answer: Any, headers: Mapping[str, str]) -> None:
        if headers["Content-Type"] not in answer["content"]:
            raise AssertionError(f"{template}, {status}: {headers['Content-Type']} is not announced")
        told = {name.lower() for name in headers if name.lower().startswith("x-ratelimit-")}
        if not told <= set(answer["headers"]):
            raise AssertionError(f"{template}, {status}: {told} are not announced")
        if "Retry-After" in answer["headers"] and not headers.get("Retry-After", "").isdigit():
            raise AssertionError(f"{template}, {status}: no Retry-After")

    def _answers(self, template: str, method: str) -> Mapping[str, Any]:
        item = self._document["paths"][template]
        found: Mapping[str, Any] = item[method.lower()]["responses"] if method.lower() in item else {}
        return found

    def _resolved(self, answer: Any) -> Any:
        if "$ref" in answer:
            return self._document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        return answer

    def _made(self, template: str, method: str, status: int) -> jsonschema_rs.Draft202012Validator:
        answer = self._resolved(self._answers(template, method)[str(status)])
        schema = answer["content"]["application/json"]["schema"]
        return jsonschema_rs.Draft202012Validator({**schema, "components": self._components}, validate_formats=True)


def closed(schema: Any) -> Any:
    """The schema of a structure, without room for other fields."""
    return {"additionalProperties": False, **schema} if "properties" in schema else schema
