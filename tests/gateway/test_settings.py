"""Settings of the gateway that no single field can judge: what would start and then serve nobody is refused."""

import pytest

from chassis.runtime.settings_loader import SettingsError
from gateway.settings import MIN_INFLIGHT_BYTES, GatewaySettings

JOURNAL = "SLUICE_GATEWAY_JOURNAL_MAX_BYTES"
WIRE = "SLUICE_GATEWAY_MAX_WIRE_BYTES"
ORIGINS = "SLUICE_GATEWAY_CORS_ORIGINS"
LEAST = 64 * 2**20 + 512 * 2**10


def test_a_journal_without_room_for_the_largest_request_is_refused() -> None:
    for environ, least in (
        ({JOURNAL: "1"}, LEAST),
        ({JOURNAL: str(LEAST - 1)}, LEAST),
        ({JOURNAL: "524288", WIRE: "1"}, 524_289),
    ):
        with pytest.raises(SettingsError, match=f"^{JOURNAL} must be 0 .* or at least {least}: ") as caught:
            GatewaySettings.load(environ)
        assert caught.value.exit_code == 2
    for size in (0, LEAST):  # without limit, or with just that room
        assert GatewaySettings.load({JOURNAL: str(size)}).journal_max_bytes == size


HOST = "app.example"
NO_ORIGINS = ("foo", HOST, "https://", f"https://{HOST}/", "https://App.example", f"https://*.{HOST}", "null")


@pytest.mark.parametrize("origin", [*NO_ORIGINS, f"https://u@{HOST}", f"https://{HOST}:http"])
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(SettingsError) as caught:
        GatewaySettings.load({ORIGINS: f"https://good.example,{origin}"})
    assert str(caught.value).startswith(f"{ORIGINS}: {origin!r} is not an origin")
    assert caught.value.exit_code == 2


def test_origins_are_taken_as_browsers_send_them() -> None:
    given = ("https://app.example", "http://localhost:3000", "http://[::1]:8080", "chrome-extension://abcdef", "*")
    assert GatewaySettings.load({ORIGINS: ", ".join(given)}).cors_origins == given


def test_what_waits_in_memory_has_a_share_of_what_there_is() -> None:
    settings = GatewaySettings()
    assert settings.within(8 * 2**30) == settings
    small = settings.within(2 * 2**30)
    assert (small.max_inflight_bytes, small.pending_bytes, small.batch_bytes) == (256 * 2**20, 64 * 2**20, 32 * 2**20)
    assert (small.max_background_bytes, small.recovery_batches) == (32 * 2**20, 1)
    assert settings.within(2**28).max_inflight_bytes == MIN_INFLIGHT_BYTES
    assert GatewaySettings(pending_bytes=1, recovery_batches=64).within(2**30).pending_bytes == 1
