"""The OpenAPI 3.1 document of a process. It is built from the routes and their types, so it cannot become outdated.

Source: spec.openapis.org/oas/v3.1.1.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from chassis.http.access import Access, Anonymous, BearerAuth, DirectoryAuth, ProjectKeyAuth, Public, SessionAuth
from chassis.http.route import Content, ErrorSpec, Operation, Parameter, ResponseSpec

API_VERSION: Final = "0.1.0"  # of the HTTP API (specification 9)

_IN_PATH: Final = re.compile(r"{(\w+)}")
_REF: Final = "#/components/{kind}/{name}"
_SCHEMES: Final = {
    "bearerAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": (
            "A personal access token (`Authorization: Bearer pat_...`), or the access token of a dashboard session."
        ),
    },
    "legacyAuth": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Legacy-Auth",
        "description": "A project key: `Legacy legacy_key=KEY`.",
    },
    "dsnAuth": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "A project key: `DSN {scheme}://{key}@{host}/{projectId}`.",
    },
    "scimBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": (
            "A token of an organization's directory (`Authorization: Bearer scim_...`). The token belongs to the "
            "directory, not to a person, and permits only SCIM requests."
        ),
    },
    "legacyKeyQuery": {"type": "apiKey", "in": "query", "name": "legacy_key", "description": "Project key."},
}
_SLUGS: Final = {
    "orgSlug": "The organization's slug.",
    "projectSlug": "The project's slug, unique within its organization.",
}
_SLUG: Final = {"type": "string", "minLength": 1}

_HEADERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "X-Request-Id": (
        "The id of this request in the log: the client's id if it matches `[A-Za-z0-9._-]{1,64}`, or a generated id.",
        {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    ),
    "Retry-After": ("Seconds to wait before the request is retried.", {"type": "integer", "minimum": 1}),
    "x-ratelimit-limit": ("The number of requests that the limit allows at once.", {"type": "integer", "minimum": 0}),
    "x-ratelimit-remaining": ("The number of requests allowed now.", {"type": "integer", "minimum": 0}),
    "x-ratelimit-reset": (
        "Unix time in seconds at which the whole limit is available again.",
        {"type": "integer", "minimum": 0},
    ),
}
_RATE_HEADERS: Final = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")

_ERROR_RESPONSES: Final[Mapping[int, tuple[str, str]]] = {
    400: ("BadRequest", "The request is not valid. `details` lists every invalid field."),
    401: (
        "Unauthorized",
        "The credential is missing or not valid. The code `mfa_required` means that a second factor is required.",
    ),
    403: ("Forbidden", "The credential is valid but does not permit the operation."),
    404: ("NotFound", "The resource does not exist, or the credential may not see it."),
    409: ("Conflict", "The state of the resource does not permit the operation."),
    412: ("PreconditionFailed", "The resource has a version other than the one in `If-Match`."),
    413: ("PayloadTooLarge", "The body exceeds a size limit, which the message states. The connection is closed."),
    415: ("UnsupportedMediaType", "The content type, charset or content encoding is not supported."),
    429: (
        "RateLimited",
        (
            "A rate limit (`rate_limited`) or a quota (`quota_exceeded`) is exceeded. The headers describe this limit "
            "or quota. There are two quotas. The quota of items limits the items of a month: items are accepted again "
            "when the next month begins. The quota of approval requests limits the pending requests: a new request is "
            "accepted again when a pending request is closed."
        ),
    ),
    500: ("InternalError", "An internal error. The log has the details under the request id."),
    501: ("NotImplemented", "This process cannot answer the request, because a required package is not installed."),
    503: ("ServiceUnavailable", "Overload, or a dependency is unavailable. The same request may succeed later."),
}
_RETRYABLE_STATUSES: Final = (429, 503)
_COMMON_STATUSES: Final = (400, 500)
_BEARER_STATUSES: Final = (401, 403, 404, 429, 503)
_KEY_STATUSES: Final = (401, 403, 429, 503)
_DIRECTORY_STATUSES: Final = (401, 404, 429, 503)
_ANONYMOUS_STATUSES: Final = (429, 503)
_BODY_STATUSES: Final = (413, 415)


class Endpoint(NamedTuple):
    """A route, with the data that the document needs. `doc` is the docstring of the handler: summary, empty line,
    description.
    """

    method: str
    path: str
    access: Access
    doc: str
    operation: Operation


def build_document(title: str, description: str, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of a process. Raises ValueError when two structures or two operations have the same name."""
    writer = _Writer()
    paths: dict[str, dict[str, Any]] = {}
    tags: dict[str, str] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = writer.operation(endpoint)
        tags.setdefault(endpoint.operation.tag.name, endpoint.operation.tag.description)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": API_VERSION, "description": description},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {kind: dict(sorted(found.items())) for kind, found in writer.components.items()},
    }


class _Writer:
    """Writes operations and collects shared components: schemas, error responses, headers, security schemes."""

    def __init__(self) -> None:
        self.components: dict[str, dict[str, Any]] = {
            kind: {} for kind in ("schemas", "responses", "headers", "securitySchemes")
        }
        self._ids: set[str] = set()

    def operation(self, endpoint: Endpoint) -> dict[str, Any]:
        """The operation object of one endpoint."""
        operation = endpoint.operation
        summary, _, description = inspect.cleandoc(endpoint.doc).partition("\n\n")
        written: dict[str, Any] = {"operationId": self._id(endpoint), "tags": [operation.tag.name]}
        written["summary"] = " ".join(summary.split()).rstrip(".")
        if description:
            written["description"] = description
        written["parameters"] = [
            *self._path_parameters(endpoint),
            *map(self._parameter, _non_path_parameters(operation)),
        ]
        if operation.body is not None:
            written["requestBody"] = self._body(endpoint)
        written["security"] = self._security(endpoint.access)
        written["responses"] = self._responses(endpoint)
        return written

    def _id(self, endpoint: Endpoint) -> str:
        name = endpoint.operation.id + ("Head" if endpoint.method == "HEAD" else "")
        if name in self._ids:
            raise ValueError(f"duplicate operation id: {name}")
        self._ids.add(name)
        return name

    def _path_parameters(self, endpoint: Endpoint) -> Iterable[dict[str, Any]]:
        described = {each.name: each for each in endpoint.operation.parameters if each.location == "path"}
        for name in _IN_PATH.findall(endpoint.path):
            if name in described:
                yield self._parameter(described[name])
            else:
                yield {"name": name, "in": "path", "required": True, "description": _SLUGS[name], "schema": _SLUG}

    def _parameter(self, parameter: Parameter) -> dict[str, Any]:
        schema = self.schema(parameter.type)
        if parameter.default is not None:
            schema["default"] = parameter.default
        written = {
            "name": parameter.name,
            "in": parameter.location,
            "required": parameter.required or parameter.location == "path",
            "description": parameter.description,
            "schema": schema,
        }
        return written if parameter.example is None else written | {"example": parameter.example}

    def _body(self, endpoint: Endpoint) -> dict[str, Any]:
        body = endpoint.operation.body
        if body is None:
            raise TypeError(f"{endpoint.path} has no request body")
        content = self._content(body.content)
        for media, each in content.items():
            example = body.examples.get(media, body.example)
            content[media] = each if example is None else each | {"example": example}
        described = {"description": body.description} if body.description else {}
        return described | {"required": True, "content": content}

    def _responses(self, endpoint: Endpoint) -> dict[str, Any]:
        operation, access = endpoint.operation, endpoint.access
        written = {
            str(response.status): self._response(response, _has_rate_limit_headers(access, response.status))
            for response in operation.responses
        }
        if endpoint.method == "HEAD":
            written = {status: each | {"content": {}} for status, each in written.items()}
        implied = {*_default_error_statuses(endpoint), *operation.error_statuses}
        for status in sorted(implied if operation.only_error_statuses is None else operation.only_error_statuses):
            if str(status) not in written:
                written[str(status)] = self._error_response(status, operation.error_spec, access)
        return dict(sorted(written.items()))

    def _response(self, response: ResponseSpec, has_rate_limit: bool) -> dict[str, Any]:
        return {
            "description": response.description,
            "headers": self._headers(response.status, has_rate_limit) | _declared_headers(response),
            "content": self._content(response.content),
        }

    def _error_response(self, status: int, error_spec: ErrorSpec, access: Access) -> dict[str, Any]:
        """A reference to the shared error response of this status, which is added at its first use. Errors of public
        routes, and 401 of anonymous routes, have separate components, because their rate-limit headers differ.
        """
        name, description = _ERROR_RESPONSES[status]
        description = error_spec.descriptions.get(status, description)
        name = _error_response_prefix(access, status) + error_spec.prefix + name
        response = self._response(
            ResponseSpec(description, error_spec.content, status), _has_rate_limit_headers(access, status)
        )
        self._add_component("responses", name, response)
        return {"$ref": _REF.format(kind="responses", name=name)}

    def _headers(self, status: int, has_rate_limit: bool) -> dict[str, Any]:
        names = ["X-Request-Id"]
        if status in _RETRYABLE_STATUSES:
            names.append("Retry-After")
        if has_rate_limit:
            names += _RATE_HEADERS
        for name in names:
            description, schema = _HEADERS[name]
            self._add_component("headers", name, {"description": description, "schema": schema})
        return {name: {"$ref": _REF.format(kind="headers", name=name)} for name in names}

    def _content(self, content: Content) -> dict[str, Any]:
        return {media: {} if type_ is None else {"schema": self.schema(type_)} for media, type_ in content.items()}

    def schema(self, type_: Any) -> dict[str, Any]:
        """The schema of a type. The structures of the type are added to the components."""
        template = _REF.format(kind="schemas", name="{name}")
        (schema,), found = msgspec.json.schema_components([type_], schema_hook=_any_value_schema, ref_template=template)
        for name, each in found.items():
            self._add_component("schemas", name, each)
        return schema

    def _security(self, access: Access) -> list[dict[str, list[str]]]:
        security = _security_requirements(access)
        for alternative in security:
            for name in alternative:
                self._add_component("securitySchemes", name, _SCHEMES[name])
        return security

    def _add_component(self, kind: str, name: str, component: Mapping[str, Any]) -> None:
        if self.components[kind].setdefault(name, component) != component:
            raise ValueError(f"two different {kind} have the name {name}")


def _has_rate_limit_headers(access: Access, status: int) -> bool:
    """Whether a response may have rate-limit headers: any response of an anonymous route, any response to a valid
    credential, and every 429.
    """
    if isinstance(access, Anonymous) or status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return not isinstance(access, Public) and status != HTTPStatus.UNAUTHORIZED


def _error_response_prefix(access: Access, status: int) -> str:
    """The prefix of an error response whose headers differ from the headers of most routes."""
    if isinstance(access, Public):
        return "Public"
    return "Visitor" if isinstance(access, Anonymous) and status == HTTPStatus.UNAUTHORIZED else ""


def _declared_headers(response: ResponseSpec) -> dict[str, Any]:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in response.headers.items()}


def _non_path_parameters(operation: Operation) -> Sequence[Parameter]:
    return [parameter for parameter in operation.parameters if parameter.location != "path"]


def _default_error_statuses(endpoint: Endpoint) -> tuple[int, ...]:
    """The error statuses that the access rule and the body of an endpoint imply."""
    statuses = _COMMON_STATUSES if endpoint.operation.body is None else _COMMON_STATUSES + _BODY_STATUSES
    if isinstance(endpoint.access, BearerAuth):
        return statuses + _BEARER_STATUSES
    if isinstance(endpoint.access, Anonymous):
        return statuses + _ANONYMOUS_STATUSES
    if isinstance(endpoint.access, DirectoryAuth):
        return statuses + _DIRECTORY_STATUSES
    return statuses + _KEY_STATUSES if isinstance(endpoint.access, ProjectKeyAuth | SessionAuth) else statuses


def _security_requirements(access: Access) -> list[dict[str, list[str]]]:
    if isinstance(access, BearerAuth):
        return [
            {"bearerAuth": [scope]} for scope in access.scopes
        ]  # OpenAPI 3.1 permits role names for schemes other than OAuth
    if isinstance(access, SessionAuth):
        return [{"bearerAuth": []}]
    if isinstance(access, ProjectKeyAuth):
        return [{"legacyAuth": []}, {"dsnAuth": []}, {"legacyKeyQuery": []}]
    if isinstance(access, DirectoryAuth):
        return [{"scimBearer": []}]
    return []


def _any_value_schema(type_: type) -> dict[str, Any]:
    """The schema of `object`, which stands for any JSON value in a structure."""
    if type_ is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError  # makes msgspec reject the type
