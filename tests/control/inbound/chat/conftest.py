import pytest

from control.settings import ControlSettings
from tests.control.conftest import Control
from tests.control.identity.conftest import person  # noqa: F401  # a fixture
from tests.control.inbound.chat.platforms import SETTINGS, Chat
from tests.control.receiver import Receiver


@pytest.fixture
def control_settings(monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> ControlSettings:
    """Both platforms are configured, and the API of chat-b is the receiver."""
    monkeypatch.setattr("control.inbound.routes.API_URL", receiver.url("/api"))
    monkeypatch.setattr("control.inbound.chat.update_queue.POLL_S", 0.02)
    return SETTINGS


@pytest.fixture
def chat(control: Control) -> Chat:
    return Chat(control)
