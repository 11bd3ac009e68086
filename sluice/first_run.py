"""The results of the first start: audit events of the organization that it creates, and files with its credentials,
such as `bootstrap.json` (written once, atomically, mode 0600), which the commands of the quick start read.
"""

import os
import shlex
import string
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import access_tokens
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.members import member_store
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.bootstrap import Bootstrap


async def record_bootstrap(connection: AsyncConnection, bootstrap: Bootstrap) -> None:
    """Record the creation of the organization and its objects, in the transaction that creates them.

    Raises LookupError if the transaction has no such organization.
    """
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record

    organization = await organization_store.find_organization(connection, bootstrap.org_slug)
    if organization is None:
        raise LookupError(f"the transaction has no organization {bootstrap.org_slug}")
    org_id = organization.id

    async def add_event(action: str, object_id: str, **data: object) -> None:
        await record(connection, Actor(org_id), action, object_id, data, COMMAND_REQUEST_ID)

    await add_event("organization.create", org_id, slug=bootstrap.org_slug, monthlyItems=organization.monthly_items)
    for owner in await member_store.list_members(connection, org_id, "", 1):
        await add_event("principal.create", owner.id, kind=owner.kind.value, name=owner.name, role=owner.role.value)
        statement = sa.select(access_tokens.c.id, access_tokens.c.name).where(access_tokens.c.principal_id == owner.id)
        for token in await connection.execute(statement):
            await add_event("token.create", token.id, holder=owner.id, name=token.name, scopes=[], expiresAt="")
    await add_event("project.create", bootstrap.project_id, slug=bootstrap.project_slug)
    for key in await project_key_store.list_project_keys(connection, int(bootstrap.project_id), None, 1):
        await add_event("key.create", key.id, name=key.name, projectId=bootstrap.project_id)


FILE_NAME: Final = "bootstrap.json"


def write(path: Path, credentials: msgspec.Struct) -> None:
    """Write a `Bootstrap`, or another struct with a secret, as JSON. Raises StartupError if the file exists, because it
    may have the only copy of a secret, or if it cannot be written.
    """
    content = msgspec.json.format(msgspec.json.encode(credentials), indent=2) + b"\n"
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)  # atomic, and fails if `path` exists
        finally:
            temporary.unlink()
    except FileExistsError as error:
        raise StartupError(
            f"{path} exists, and may have the only copy of a secret. If you do not need it, move it elsewhere."
        ) from error
    except OSError as error:
        raise StartupError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path) -> Bootstrap:
    """The credentials in the file. Raises StartupError if the file does not exist or has no credentials."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Bootstrap)
    except FileNotFoundError as error:
        raise StartupError(f"{path} does not exist; `sluice up` writes it at its first start.") from error
    except OSError as error:
        raise StartupError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise StartupError(f"{path} does not contain valid credentials: {error}.") from error


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
