"""The control service with a receiver within its reach."""

from collections.abc import AsyncIterator

import pytest

from control.settings import ControlSettings
from tests.control.receiver import Receiver, new_receiver

CHANNELS = "/orgs/acme/projects/web/notification-channels"


@pytest.fixture
def control_settings() -> ControlSettings:
    return ControlSettings(
        max_body_bytes=16_384, egress_allow=("127.0.0.0/8",), egress_http=True, chat_hosts=("127.0.0.1",)
    )


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = await new_receiver()
    yield made
    await made.server.close()
