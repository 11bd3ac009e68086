"""OpenAPI descriptions of the routes that every process has: health, metrics, documentation."""

from typing import Annotated, Any, Final, Literal

import msgspec

from chassis.errors import JSON_TYPE
from chassis.http.route import ErrorBody, Operation, ResponseSpec, Tag, json_content
from chassis.runtime.health import Probe

HTML_TYPE: Final = "text/html"
PROCESS: Final = Tag("process", "Health, metrics and API documentation of this process.")

_Name = Annotated[str, msgspec.Meta(description="The service; `sluice` if one process runs all of them.")]


class Alive(msgspec.Struct):
    """The process is alive."""

    status: Literal["alive"]
    service: _Name


class Ready(msgspec.Struct):
    """Every required dependency is available."""

    status: Literal["ready"]
    service: _Name
    dependencies: list[Probe]


class Unready(msgspec.Struct):
    """The state of every dependency, and the error in the shape of every error response."""

    status: Literal["unavailable"]
    service: _Name
    dependencies: list[Probe]
    error: ErrorBody


LIVEZ: Final = Operation("alive", PROCESS, (ResponseSpec("The process is alive.", json_content(Alive)),))
READYZ: Final = Operation(
    "ready",
    PROCESS,
    (
        ResponseSpec("The process is ready.", json_content(Ready)),
        ResponseSpec(
            "A required dependency is unavailable, or the process is shutting down.", json_content(Unready), 503
        ),
    ),
)
METRICS: Final = Operation(
    "metrics", PROCESS, (ResponseSpec("Prometheus metrics.", {"text/plain": str}),), error_statuses=(401, 403)
)
OPENAPI: Final = Operation("openapi", PROCESS, (ResponseSpec("An OpenAPI 3.1 document.", {JSON_TYPE: dict[str, Any]}),))
DOCS: Final = Operation("docs", PROCESS, (ResponseSpec("An HTML page.", {HTML_TYPE: str}),))
