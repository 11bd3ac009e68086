"""`python -m sluice.build_interface` (`make interface`) writes `openapi.json`; run it after you have changed routes.

A test compares the file with what `sluice up` serves.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from chassis.http.web import API_DOCS
from chassis.runtime.telemetry import Telemetry
from sluice.app_builder import ALL_SERVICES, compose_app
from sluice.interface import FILE_NAME, split_lines
from sluice.settings_sources import SettingsSources


def build_document() -> bytes:
    """The OpenAPI document of all services with default settings, one line per operation and component, so that a diff
    shows each change of the interface.
    """
    with TemporaryDirectory() as directory:
        sources = SettingsSources({"SLUICE_DATA": directory}, None, {})
        document = compose_app(ALL_SERVICES, sources, sources.chassis_settings(), Telemetry("interface"))[
            API_DOCS
        ].document()
    return "".join([*split_lines(document, 3), "\n"]).encode()


if __name__ == "__main__":
    Path(__file__).with_name(FILE_NAME).write_bytes(build_document())
    sys.exit(0)
