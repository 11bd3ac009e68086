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
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
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


_INTRODUCTION: Final = """\
# Settings

This page lists all settings, which you can set in the environment or in a file. `sluice config` prints every setting with its current value. Secrets
are masked.

Settings come from the environment or from a TOML file. `SLUICE_CONFIG` or `--config` has the path of this file. Command-line options override the
environment, and the environment overrides the file. In the file, names are in lower case. A setting of all services is at the top level, without
`SLUICE_`: for example, `SLUICE_DATA` is `data`. A setting of one service is in the table of the service: for example, `SLUICE_GATEWAY_MAX_ITEMS` is
`max_items` in `[gateway]`. An empty variable counts as unset. The exception is `SLUICE_GRPC_PORT`: an empty value turns OTLP/gRPC off. An unknown
name or an invalid value stops every command, with a message that names the setting.

<!-- `sluice config --markdown > docs/settings.md` writes this page. -->

"""  # noqa: E501  # lines as long as on the other pages
_COLUMNS: Final = ("Name", "Default", "Unit", "0 or empty means", "Description")


def markdown(rows: Sequence[SettingInfo]) -> Iterator[str]:
    """docs/settings.md, in pieces."""
    yield _INTRODUCTION
    yield from _table(_COLUMNS, [_cells(row) for row in rows if not row.advanced])
    yield "\n## Advanced\n\n"
    yield "Most operators need none of these settings. The last column says when to change a setting.\n\n"
    yield from _table((*_COLUMNS, "Change it when"), [(*_cells(row), row.advanced) for row in rows if row.advanced])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(cells)} |\n"


def _cells(row: SettingInfo) -> tuple[str, ...]:
    default = f"`{row.default}`" if row.default else ""
    return f"`{row.name}`", default, row.unit, _escape(row.zero), _escape(row.doc)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _text(rows: Sequence[SettingInfo]) -> Iterator[str]:
    yield from map(_describe, [row for row in rows if not row.advanced])
    yield "\nAdvanced settings; most operators need none of these.\n\n"
    yield from map(_describe, [row for row in rows if row.advanced])


def _describe(row: SettingInfo) -> str:
    unit = f" {row.unit}" if row.unit and row.value else ""
    zero = f" 0 or empty: {row.zero.removeprefix('empty: ')}." if row.zero else ""
    advanced = f" Change it when {row.advanced}." if row.advanced else ""
    return (
        f"{row.name} = {row.value}{unit}\n"
        f"    {row.doc} Default: {row.default or 'empty'}.{zero}{advanced} In a file: {row.key}.\n"
    )
