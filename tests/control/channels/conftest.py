"""The control service with a receiver within its reach."""

import pytest

from control.settings import ControlSettings

CHANNELS = "/orgs/acme/projects/web/notification-channels"


@pytest.fixture
def control_settings() -> ControlSettings:
    return ControlSettings(
        max_body_bytes=16_384, egress_allow=("127.0.0.0/8",), egress_http=True, chat_hosts=("127.0.0.1",)
    )
