"""The port of OTLP/gRPC, which is bound before any store is opened, like the port of HTTP.

The gRPC server binds and listens on a socket of its own. The socket here is bound to the same port and never listens,
so that a port in use is found at once, and the port stays reserved until the process ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import structlog

from chassis.errors import StartupError
from chassis.http.serve import bind
from chassis.runtime.settings import ChassisSettings

log = structlog.get_logger(__name__)


@contextmanager
def reserved(settings: ChassisSettings, *, reuse_port: bool, required: bool) -> Iterator[ChassisSettings]:
    """The settings with the port that is bound while the block runs, or without a port.

    `reuse_port`: workers listen on it, too. A port that cannot be bound raises StartupError if it is `required`, and is
    a warning otherwise.
    """
    if settings.grpc_port is None:
        yield settings
        return
    try:
        listener = bind(settings.host, settings.grpc_port, reuse_port=reuse_port, option="--grpc-port")
    except StartupError as error:
        if required:
            raise
        log.warning("OTLP/gRPC is off: its port cannot be bound", port=settings.grpc_port, detail=str(error))
        yield msgspec.structs.replace(settings, grpc_port=None)
        return
    with listener:
        yield msgspec.structs.replace(settings, grpc_port=listener.getsockname()[1])
