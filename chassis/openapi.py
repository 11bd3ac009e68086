"""What a process answers to, as OpenAPI 3.1: made from its routes, so that it cannot fall behind them.

Paths, path parameters, credentials and the shape of refusals come from the route table; a service may say more about
an operation (`Route.operation`: query parameters, bodies, answers), which is laid over what is made here.
Source: spec.openapis.org/oas/v3.1.1.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from chassis.access import Access, Bearer, ProjectKey
from proto.errors import ErrorCode

API_VERSION: Final = "0.1.0"  # of the interface (specification 9)

_PARAMETER: Final = re.compile(r"{(\w+)}")
_SCHEMES: Final = {
    "bearerAuth": {"type": "http", "scheme": "bearer", "description": "Personal access token."},
    "legacyAuth": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Legacy-Auth",
        "description": "Project key: `Legacy legacy_key=KEY`.",
    },
    "dsnAuth": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "Project key: `DSN {scheme}://{key}@{host}/{projectId}`.",
    },
    "legacyKeyQuery": {"type": "apiKey", "in": "query", "name": "legacy_key", "description": "Project key."},
}
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "requestId"],
            "properties": {
                "code": {"type": "string", "enum": [code.value for code in ErrorCode]},
                "message": {"type": "string"},
                "requestId": {"type": "string"},
                "details": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["path", "message", "code"],
                        "properties": {name: {"type": "string"} for name in ("path", "message", "code")},
                    },
                },
            },
        }
    },
}


class Operation(NamedTuple):
    """One route, as far as a reader of the interface is concerned. `more` is laid over what is made of the rest."""

    method: str
    path: str
    access: Access
    summary: str
    more: Mapping[str, Any]


def document(title: str, operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI document of a process."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": API_VERSION},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "responses": {
                "Error": {
                    "description": "Refused; `error.code` says why.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
            },
            "securitySchemes": _SCHEMES,
        },
    }


def _described(operation: Operation) -> dict[str, Any]:
    refused = {"$ref": "#/components/responses/Error"}
    made: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in _PARAMETER.findall(operation.path)
        ],
        "security": _security(operation.access),
        "responses": {"2XX": {"description": "Done."}, "4XX": refused, "5XX": refused},
    }
    more = dict(operation.more)
    made["parameters"] += more.pop("parameters", [])
    return made | more


def _security(access: Access) -> list[dict[str, list[str]]]:
    if isinstance(access, Bearer):
        return [{"bearerAuth": [access.scope]}]  # 3.1 allows the names of roles for schemes other than OAuth
    if isinstance(access, ProjectKey):
        return [{"legacyAuth": []}, {"dsnAuth": []}, {"legacyKeyQuery": []}]
    return []
