"""Settings of all services from defaults, file, environment and command line; later sources override earlier ones."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import CONFIG_VARIABLE, PREFIX, Settings, environment

_CHASSIS_OPTIONS: Final = ("data", "host", "port", "grpc_port", "health_port")

_NO_GRPC: Final = ("grpc_port", "")  # the only option that may be empty

AnySettings = TypeVar("AnySettings", bound=Settings)


class SettingsSources(NamedTuple):
    """The sources of settings, read once; `load` builds the settings of one service from them."""

    environ: Mapping[str, str]
    file: Path | None
    overrides: Mapping[str, Any]

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "SettingsSources":
        """The sources of this process: its environment and command line."""
        environ = environment()
        config_file = arguments.config or environ.get(CONFIG_VARIABLE)
        options = {name: getattr(arguments, name, None) for name in _CHASSIS_OPTIONS}
        overrides = {
            name: value for name, value in options.items() if value not in (None, "") or (name, value) == _NO_GRPC
        }
        return cls(environ, Path(config_file) if config_file else None, overrides)

    def load(self, cls: type[AnySettings]) -> AnySettings:
        """The settings of one service. Raises SettingsError, which names an unknown setting or an invalid value."""
        return cls.load(self.environ, self.file, self.overrides if cls.prefix == PREFIX else None)

    def chassis_settings(self) -> ChassisSettings:
        """The settings that all services share."""
        return self.load(ChassisSettings)
