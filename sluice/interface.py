"""The interface of the whole product, as data: a service alone shows it at `/docs`, for behind a proxy that path leads
to one of them, and none may import the others.

`python -m sluice.interface` (`make interface`) writes `openapi.json` anew, after routes or what they answer have
changed; a test holds it to what `sluice up` serves.
"""

import json
import sys
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from chassis.http.web import API_DOCS
from chassis.runtime.telemetry import Telemetry
from sluice.settings_sources import SettingsSources

FILE_NAME: Final = "openapi.json"


def load_document() -> dict[str, Any]:
    """The document that came with this release."""
    read: dict[str, Any] = msgspec.json.decode(files("sluice").joinpath(FILE_NAME).read_bytes())
    return read


def build_document() -> bytes:
    """The same, from the routes of all services with the settings' defaults. A line for each operation and each
    component: so a change of the interface is seen as one.
    """
    from sluice.app_builder import ALL_SERVICES, compose_app

    with TemporaryDirectory() as directory:
        options = SettingsSources({"SLUICE_DATA": directory}, None, {})
        document = compose_app(ALL_SERVICES, options, options.chassis_settings(), Telemetry("interface"))[
            API_DOCS
        ].document()
    return "".join([*split_lines(document, 3), "\n"]).encode()


def split_lines(value: Any, depth: int) -> list[str]:
    """JSON that is broken into lines down to `depth`."""
    if not depth or not isinstance(value, dict) or not value:
        return [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    members = (f"{json.dumps(name)}:{''.join(split_lines(each, depth - 1))}" for name, each in value.items())
    return ["{\n", ",\n".join(members), "\n}"]


if __name__ == "__main__":
    Path(__file__).with_name(FILE_NAME).write_bytes(build_document())
    sys.exit(0)
