"""Settings: where they come from, and that a mistake refuses to start and is named."""

from pathlib import Path
from typing import Annotated, ClassVar

import pytest

from chassis.clickhouse.target import parse_url
from chassis.db.database import sqlite_file
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import Settings, SettingsError, describe, environment, setting


class GatewaySettings(Settings, frozen=True, kw_only=True):
    prefix: ClassVar[str] = "SLUICE_GATEWAY_"

    max_items: Annotated[int, setting("Items of one request.", unit="items", ge=1)] = 50
    origins: Annotated[tuple[str, ...], setting("Origins.", zero="empty: none")] = ()


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sluice.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_listen_on_loopback_and_embed_both_stores() -> None:
    settings = ChassisSettings.load({})
    assert (settings.host, settings.port) == ("127.0.0.1", 4318)
    assert settings.effective_clickhouse_url == f"chdb://{Path('data').absolute()}/clickhouse"
    assert settings.effective_database_url == f"sqlite:///{Path('data').absolute()}/sluice.db"
    assert settings.uses_embedded_clickhouse
    assert settings.base_url == "http://127.0.0.1:4318"


def test_the_default_stores_are_in_the_data_directory_whatever_its_name(tmp_path: Path) -> None:
    for name in ("a#b", "a?b", "a%41b", "a b", "dätä"):
        settings = ChassisSettings(data=str(tmp_path / name))
        assert parse_url(settings.effective_clickhouse_url).directory == tmp_path / name / "clickhouse"
        assert sqlite_file(settings.effective_database_url) == tmp_path / name / "sluice.db"


def test_a_question_mark_is_fine_where_no_engine_is_embedded() -> None:
    settings = ChassisSettings.load({"SLUICE_DATA": "/a?b", "SLUICE_CLICKHOUSE_URL": "http://h:8123/d"})
    assert sqlite_file(settings.effective_database_url) == Path("/a?b/sluice.db")


def test_options_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, 'port = 1\nhost = "a"\ndata = "d"\n')
    settings = ChassisSettings.load({"SLUICE_PORT": "2", "SLUICE_HOST": "b"}, path, {"port": 3})
    assert (settings.port, settings.host, settings.data, settings.log_level) == (3, "b", "d", "info")


def test_every_service_reads_its_own_names_and_its_own_table(tmp_path: Path) -> None:
    path = write(tmp_path, "port = 1\n[gateway]\nmax_items = 7\n[query]\nanything = 1\n")
    environ = {"SLUICE_PORT": "2", "SLUICE_GATEWAY_ORIGINS": "https://a.example, https://b.example"}
    settings = GatewaySettings.load(environ, path)
    assert settings == GatewaySettings(max_items=7, origins=("https://a.example", "https://b.example"))
    assert ChassisSettings.load(environ, path).port == 2


def test_an_empty_variable_the_name_of_the_file_and_other_variables_are_no_settings() -> None:
    assert ChassisSettings.load({"SLUICE_PORT": "", "SLUICE_HOST": ""}) == ChassisSettings()
    assert ChassisSettings.load({"SLUICE_CONFIG": "/etc/sluice.toml"}) == ChassisSettings()
    assert environment({"SLUICE_PORT": "1", "PORT": "2"}) == {"SLUICE_PORT": "1"}


UNKNOWN = (
    "Unknown setting: SLUICE_PROT. Only settings may have names that begin with SLUICE_. "
    "`sluice config` lists all settings."
)


@pytest.mark.parametrize(
    ("environ", "toml", "message"),
    [
        ({"SLUICE_PROT": "1"}, "", UNKNOWN),
        ({"SLUICE_A": "1", "SLUICE_B": "1"}, "", "Unknown settings: SLUICE_A, SLUICE_B."),
        ({}, "prot = 1", "Unknown setting: prot in "),
        ({}, "[gatway]\nx = 1", "Unknown setting: gatway in "),
        ({"SLUICE_PORT": "http"}, "", "Invalid setting: SLUICE_PORT: must be a whole number, 0 to 65535."),
        ({"SLUICE_PORT": "65536"}, "", "Invalid setting: SLUICE_PORT: must be a whole number, 0 to 65535."),
        ({"SLUICE_PORT": "-1"}, "", "Invalid setting: SLUICE_PORT: must be a whole number, 0 to 65535."),
        ({}, 'port = "x"', "Invalid setting: port in "),
        ({"SLUICE_DURABILITY": "disk"}, "", "setting: SLUICE_DURABILITY: must be one of journal, store, memory."),
        ({"SLUICE_LOG_LEVEL": "loud"}, "", "SLUICE_LOG_LEVEL: must be one of debug, info, warning, error."),
        ({}, "host = 1", "must be a string."),
        ({}, "trusted_proxies = 1", "must be a list of strings."),
        ({"SLUICE_HEADER_TIMEOUT_S": "0"}, "", "Invalid setting: SLUICE_HEADER_TIMEOUT_S: must be a number, 0.05 to "),
        ({"SLUICE_HEADER_TIMEOUT_S": "nan"}, "", "Invalid setting: SLUICE_HEADER_TIMEOUT_S: "),
        ({"SLUICE_CLICKHOUSE_URL": "mysql://h/d"}, "", "SLUICE_CLICKHOUSE_URL must start with"),
        ({"SLUICE_DATA": "/a?b"}, "", "SLUICE_DATA, or the directory of SLUICE_CLICKHOUSE_URL, must not contain '?'"),
        ({"SLUICE_CLICKHOUSE_URL": "chdb:///a%3Fb"}, "", "SLUICE_DATA, or the directory of SLUICE_CLICKHOUSE_URL,"),
        ({"SLUICE_DATABASE_URL": "oracle://h/d"}, "", "SLUICE_DATABASE_URL must start with"),
        ({"SLUICE_REDIS_URL": "memcached://h"}, "", "SLUICE_REDIS_URL must start with"),
        ({"SLUICE_PUBLIC_URL": "sluice.example"}, "", "SLUICE_PUBLIC_URL must start with"),
        ({"SLUICE_TRUSTED_PROXIES": "10.0.0.0/8,proxy"}, "", "SLUICE_TRUSTED_PROXIES: 'proxy' is neither an address"),
        ({}, "port = ", "is not valid TOML"),
    ],
)
def test_a_mistake_refuses_to_start_and_is_named(
    tmp_path: Path, environ: dict[str, str], toml: str, message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        ChassisSettings.load(environ, write(tmp_path, toml))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_mistake_in_the_settings_of_a_service_is_named_too(tmp_path: Path) -> None:
    least = r"^Invalid setting: SLUICE_GATEWAY_MAX_ITEMS: must be a whole number of at least 1\.$"
    for name, value, message in (("ITEM", "1", "SLUICE_GATEWAY_MAX_ITEM"), ("ITEMS", "abc", least)):
        with pytest.raises(SettingsError, match=message):
            GatewaySettings.load({f"SLUICE_GATEWAY_MAX_{name}": value})
    with pytest.raises(SettingsError, match="must be a table"):
        GatewaySettings.load({}, write(tmp_path, "gateway = 3"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml cannot be read"):
        ChassisSettings.load({}, tmp_path / "nowhere.toml")


def test_a_value_that_does_not_fit_is_not_echoed() -> None:
    with pytest.raises(SettingsError) as caught:
        ChassisSettings.load({"SLUICE_CLICKHOUSE_URL": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_description_has_every_field_and_masks_secrets() -> None:
    rows = {row.name: row for row in describe(ChassisSettings(metrics_token="hunter2", port=9))}
    assert next(iter(rows)) == "SLUICE_DATA"
    assert len(rows) == len(ChassisSettings.__struct_fields__)
    assert rows["SLUICE_PORT"].value == "9"
    assert rows["SLUICE_PORT"].default == "4318"
    assert rows["SLUICE_PORT"].zero == "any free port"
    assert rows["SLUICE_METRICS_TOKEN"].value == "********"
    assert all(row.doc for row in rows.values())


def test_description_of_a_service_has_its_own_names() -> None:
    row = describe(GatewaySettings(max_items=7))[0]
    names = "SLUICE_GATEWAY_MAX_ITEMS", "gateway.max_items"
    assert (row.name, row.key, row.unit, row.default, row.value) == (*names, "items", "50", "7")


def test_a_field_without_a_description_cannot_be_declared() -> None:
    class Bare(Settings, frozen=True, kw_only=True):
        size: int = 1

    with pytest.raises(TypeError, match=r"Bare\.size needs setting"):
        Bare.load({})


def test_a_file_nested_without_end_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is nested too deep"):
        ChassisSettings.load({}, write(tmp_path, "a = " + "[" * 5_000 + "]" * 5_000))
