"""Commands of builds send a request again while the server is busy."""

import pytest

from chassis.errors import StartupError
from sluice.control_client import MAX_TRIES, ControlClient
from tests.sluice.test_send import answering

BUSY = {"Retry-After": "0"}


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(status: int) -> None:
    busy = status, BUSY, b'{"error": {"message": "Busy."}}'
    with answering(*[busy] * (MAX_TRIES - 1), (200, {}, b'{"x": "1"}')) as url:
        assert ControlClient(url, "token").post("/v1/traces", b"{}", dict[str, str]) == (200, {"x": "1"})
    with answering(busy) as url, pytest.raises(StartupError) as raised:
        ControlClient(url, "token").post("/v1/traces", b"{}", dict[str, str])
    assert str(raised.value) == f"{url}/v1/traces returned {status}: Busy."
