"""The extras of the package: the modules of each, and whether they are installed. If a sub-command lacks modules, it
prints one sentence about what to install.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings

# The modules of each extra that are imported. Two extras install parts of `opentelemetry`.
MODULES: Final[Mapping[str, Sequence[str]]] = {
    "gateway": ("crc32c", "google.protobuf", "isal", "opentelemetry.proto"),
    "grpc": ("grpc",),
    "control": ("aiosmtplib", "argon2", "dns", "lxml", "pydantic", "scim2_models", "signxml"),
    "embedded": ("chdb",),
    "postgresql": ("psycopg",),
    "redis": ("redis",),
    "send": ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
    "warehouse": ("pyarrow",),
}


class MissingExtras(StartupError):
    """Packages that the command needs are not installed; the message names the extras to install."""

    def __init__(self, command: str, modules: Sequence[str], extras: Sequence[str]) -> None:
        packages = "a package that is" if len(modules) == 1 else "packages that are"
        super().__init__(
            f"`sluice {command}` needs {packages} not installed ({', '.join(modules)}): pip install "
            f"'sluice[{','.join(extras)}]', or 'sluice[all]' for everything."
        )


def of_services(names: Sequence[str], settings: ChassisSettings) -> list[str]:
    """The extras that these services, their ports and the stores of the settings need."""
    grpc = ["grpc"] if "gateway" in names and settings.grpc_port is not None else []
    return [*(name for name in names if name in MODULES), *grpc, *of_stores(settings)]


def of_stores(settings: ChassisSettings) -> list[str]:
    """The extras that the stores of the settings need."""
    needed_extras = {
        "embedded": settings.uses_embedded_clickhouse,
        "postgresql": settings.effective_database_url.startswith("postgresql"),
        "redis": bool(settings.redis_url),
    }
    return [extra for extra, needed in needed_extras.items() if needed]


def require(command: str, extras: Sequence[str]) -> None:
    """Raises MissingExtras, which names all missing modules of these extras."""
    missing = {extra: [name for name in MODULES[extra] if not _is_installed(name)] for extra in extras}
    modules = [name for names in missing.values() for name in names]
    if modules:
        raise MissingExtras(command, modules, [extra for extra, names in missing.items() if names])


def of_module(name: str) -> str | None:
    """The extra that installs a module; None if no extra does."""
    for extra, modules in MODULES.items():
        if any(f"{module}.".startswith(f"{name}.") or f"{name}.".startswith(f"{module}.") for module in modules):
            return extra
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
