"""What can be set about the control service: `SLUICE_CONTROL_<FIELD>`, or the table [control] of the settings file."""

from typing import Annotated, ClassVar

from chassis.configuration import Settings, setting


class ControlSettings(Settings, frozen=True, kw_only=True):
    """Settings of the control service."""

    prefix: ClassVar[str] = "SLUICE_CONTROL_"

    cursor_key: Annotated[
        str,
        setting(
            "Key that signs page cursors; give the same to every control process.",
            zero="empty: the file cursor.key in the data directory, made at first start",
            secret=True,
        ),
    ] = ""
    max_body_bytes: Annotated[
        int, setting("Largest request body; a larger one is answered 413.", unit="bytes", ge=1_024, le=16 * 2**20)
    ] = 256 * 1_024
