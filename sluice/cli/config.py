"""`sluice config`: prints every setting of every service with its current value. Secrets are masked."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import SettingInfo, Settings, describe
from sluice.settings_sources import SettingsSources


def run(arguments: argparse.Namespace) -> int:
    """Print the settings; the exit code. Raises SettingsError for settings that prevent a start."""
    sources = SettingsSources.from_arguments(arguments)
    rows = [row for cls in settings_classes() for row in describe(sources.load(cls))]
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")
    elif arguments.markdown:
        sys.stdout.writelines(markdown(rows))
    else:
        sys.stdout.writelines(_text(rows))
    return 0


def settings_classes() -> Sequence[type[Settings]]:
    """The settings classes of the chassis and of each service."""
    from control.settings import ControlSettings
    from gateway.settings import GatewaySettings
    from query.settings import QuerySettings

    return (ChassisSettings, GatewaySettings, QuerySettings, ControlSettings)


_HEADINGS: Final = ("| Name | Default | Unit | 0 or empty means | Description |", "| --- | --- | --- | --- | --- |")


def markdown(rows: Sequence[SettingInfo]) -> Iterator[str]:
    """The table of docs/settings.md, line by line."""
    yield from (f"{line}\n" for line in _HEADINGS)
    for row in rows:
        default = f"`{row.default}`" if row.default else ""
        yield f"| `{row.name}` | {default} | {row.unit} | {_cell(row.zero)} | {_cell(row.doc)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _text(rows: Sequence[SettingInfo]) -> Iterator[str]:
    for row in rows:
        unit = f" {row.unit}" if row.unit and row.value else ""
        yield f"{row.name} = {row.value}{unit}\n"
        zero = f" 0 or empty: {row.zero.removeprefix('empty: ')}." if row.zero else ""
        yield f"    {row.doc} Default: {row.default or 'empty'}.{zero} In a file: {row.key}.\n"
