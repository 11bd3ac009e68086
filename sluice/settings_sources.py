"""Settings of all services: from defaults, file, environment and command line, the later ones winning."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import CONFIG_VARIABLE, PREFIX, Settings, environment

_CHASSIS_OPTIONS: Final = ("data", "host", "port", "health_port")

AnySettings = TypeVar("AnySettings", bound=Settings)


class SettingsSources(NamedTuple):
    """Where settings come from, read once; `load` makes the structure of one service from them."""

    environ: Mapping[str, str]
    file: Path | None
    overrides: Mapping[str, Any]

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "SettingsSources":
        """From the environment of this process and its command line."""
        environ = environment()
        named = arguments.config or environ.get(CONFIG_VARIABLE)
        given = {name: getattr(arguments, name, None) for name in _CHASSIS_OPTIONS}
        overrides = {name: value for name, value in given.items() if value not in (None, "")}
        return cls(environ, Path(named) if named else None, overrides)

    def load(self, cls: type[AnySettings]) -> AnySettings:
        """Raises SettingsError naming what is unknown or does not fit."""
        return cls.load(self.environ, self.file, self.overrides if cls.prefix == PREFIX else None)

    def chassis_settings(self) -> ChassisSettings:
        """What every service stands on."""
        return self.load(ChassisSettings)
