"""Ids of channels and deliveries: a path or a body may hold characters that no database column accepts."""

import re
from typing import Final

CHANNEL_ID_PATTERN: Final = "chn_[0-9a-z]{26}"
DELIVERY_ID_PATTERN: Final = "dlv_[0-9a-z]{26}"
_CHANNEL_ID: Final = re.compile(CHANNEL_ID_PATTERN)
_DELIVERY_ID: Final = re.compile(DELIVERY_ID_PATTERN)


def is_channel_id(text: str) -> bool:
    """Whether the text has the format of a channel id."""
    return _CHANNEL_ID.fullmatch(text) is not None


def is_delivery_id(text: str) -> bool:
    """Whether the text has the format of a delivery id."""
    return _DELIVERY_ID.fullmatch(text) is not None
