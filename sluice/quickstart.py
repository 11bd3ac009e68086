"""The quick-start text of `sluice up`: commands to paste, which read the secrets from the bootstrap file."""

import shlex
import string
import sys
from pathlib import Path
from typing import Final

from chassis.runtime.settings import ChassisSettings

_QUICKSTART: Final = string.Template("""\
Send a trace and print its URL; paste this into another terminal (it reads the secrets from $file):

    $command send --data $data

The same with curl alone:

    secret() { sed -n "s/.*\\"$$1\\": *\\"\\([^\\"]*\\)\\".*/\\1/p" $file; }
    TRACE=$$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n') NOW=$$(date +%s)
    curl -sS $url/v1/traces -H "X-Legacy-Auth: Legacy legacy_key=$$(secret legacyKey)" \\
      -H 'Content-Type: application/json' -d '{
      "resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "hello"}}]},
      "scopeSpans": [{"spans": [{"traceId": "'$$TRACE'", "spanId": "00000000000000a1", "name": "first span", "kind": 1,
      "startTimeUnixNano": "'$$NOW'000000000", "endTimeUnixNano": "'$$NOW'250000000"}]}]}]}'; echo
    for wait in 1 1 1 2 5; do sleep $$wait; curl -sf \\
      $url/orgs/$$(secret orgSlug)/projects/$$(secret projectSlug)/explore/traces/$$TRACE/waterfall \\
      -H "Authorization: Bearer $$(secret accessToken)" && break; done || echo "not available yet"; echo

Any OpenTelemetry SDK:

    export OTEL_EXPORTER_OTLP_ENDPOINT=$url OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
    export OTEL_EXPORTER_OTLP_HEADERS="x-legacy-auth=Legacy%20legacy_key%3D$$(secret legacyKey)"
""")
_OVER_GRPC: Final = string.Template("""\

The same over gRPC:

    export OTEL_EXPORTER_OTLP_ENDPOINT=$url OTEL_EXPORTER_OTLP_PROTOCOL=grpc
""")


def open_command(settings: ChassisSettings) -> str:
    """The command that opens the page of the server of the settings, logged in."""
    return f"{_command()} open --data {shlex.quote(str(settings.data_dir))}"


def _command() -> str:
    return shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "sluice" else "sluice"


def quickstart_text(settings: ChassisSettings, file: Path) -> str:
    """Commands to paste, for the server of the settings with the credentials in `file`. They contain no secret."""
    text = _QUICKSTART.substitute(
        command=_command(),
        url=shlex.quote(settings.base_url),
        data=shlex.quote(str(settings.data_dir)),
        file=shlex.quote(str(file)),
    )
    if settings.grpc_address is None:
        return text
    return text + _OVER_GRPC.substitute(url=shlex.quote(f"http://{settings.grpc_address}"))
