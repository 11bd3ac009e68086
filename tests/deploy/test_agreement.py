"""What the files of deploy/ say of settings, ports, times, users and locks agrees, with the product as well."""

import configparser
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from lxml import etree

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import CONFIG_VARIABLE, describe
from sluice.cli.config import settings_classes
from tests.deploy.proxies import POOLS, TOOLS

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
PORTS: Final = {"gateway": 4318, "grpc": 4317, "query": 4319, "control": 4320}
STORING_S: Final = 5  # of a gateway that stops: what it holds goes to ClickHouse for that long
IDLE_S: Final = 5  # of connections in the pools of proxies
UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE: Final[dict[str, Any]] = msgspec.yaml.decode((DEPLOY / "compose/compose.yaml").read_bytes())
OURS: Final = {name: each for name, each in COMPOSE["services"].items() if "sluice" in str(each["image"])}
SETTINGS: Final = {row.name for cls in settings_classes() for row in describe(cls())} | {CONFIG_VARIABLE}


def texts() -> Mapping[Path, str]:
    """Every file of deploy/ that goes into the repository."""
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.name != ".env"]
    return {path: path.read_text("utf-8") for path in files}


def service(unit: Path) -> Mapping[str, list[str]]:
    """The section [Service], with all values of a key."""

    class Values(dict[str, Any]):
        """Repeated keys add up."""

        def __setitem__(self, key: str, value: Any) -> None:
            if isinstance(value, list) and key in self:
                value = [*self[key], *value]
            super().__setitem__(key, value)

    parser = configparser.RawConfigParser(strict=False, dict_type=Values, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are written
    parser.read(unit, encoding="utf-8")
    return {key: value.splitlines() for key, value in parser["Service"].items()}


def environment(unit: Path) -> Mapping[str, str]:
    """Its settings."""
    return dict(each.split("=", 1) for line in service(unit)["Environment"] for each in line.split())


def test_only_settings_are_named_that_there_are() -> None:
    for path, text in texts().items():
        assert set(re.findall(r"\bSLUICE_[A-Z0-9_]+", text)) <= SETTINGS, path


def test_ports_are_the_same_everywhere() -> None:
    assert (ChassisSettings().port, ChassisSettings().grpc_port) == (PORTS["gateway"], PORTS["grpc"])
    assert {name: {address.rpartition(":")[2] for address in found} for name, found in POOLS.items()} == {
        name: {str(port)} for name, port in PORTS.items()
    }
    exposed = re.findall(r"^EXPOSE (.*)$", (DEPLOY / "image/Containerfile").read_text("utf-8"), re.MULTILINE)
    assert [sorted(map(int, each.split())) for each in exposed] == [sorted(PORTS.values())]
    for name in ("gateway-1", "gateway-2", "query", "control"):
        assert int(OURS[name]["environment"]["SLUICE_PORT"]) == PORTS[name.partition("-")[0]]
    for unit in UNITS:
        (command,) = service(unit)["ExecStart"]
        name, port = command.split()[1], re.search(r"--port (\d+)", command)
        assert port is None or int(port[1]) == PORTS[name]
    caddy = COMPOSE["services"]["caddy"]
    assert caddy["environment"] == {
        "PROXY_SITE": "http://:4318, http://:4317",
        "PROXY_GATEWAYS": f"gateway-1:{PORTS['gateway']} gateway-2:{PORTS['gateway']}",
        "PROXY_GATEWAYS_GRPC": f"gateway-1:{PORTS['grpc']} gateway-2:{PORTS['grpc']}",
        "PROXY_QUERIES": f"query:{PORTS['query']}",
        "PROXY_CONTROLS": f"control:{PORTS['control']}",
    }
    assert caddy["ports"] == ["127.0.0.1:4318:4318", "127.0.0.1:4317:4317"]


def test_addresses_of_the_proxies_are_those_that_the_units_listen_on() -> None:
    text = {name: (DEPLOY / "proxy" / name).read_text("utf-8") for name in ("Caddyfile", "nginx.conf", "envoy.yaml")}
    for pool, found in POOLS.items():
        assert " ".join(found) in text["Caddyfile"], pool
        assert all(f"server {address} " in text["nginx.conf"] for address in found)
        hosts = [address.split(":") for address in found]
        assert all(f"{{address: {host}, port_value: {port}}}" in text["envoy.yaml"] for host, port in hosts)
    (command,) = service(DEPLOY / "systemd/sluice-gateway@.service")["ExecStart"]
    assert command.endswith(" gateway --host 127.0.0.%i --port 4318")


def drain_s(settings: Mapping[str, str]) -> tuple[float, float]:
    """Delay, and how long the process may take in all."""
    defaults = ChassisSettings()
    delay = float(settings.get("SLUICE_DRAIN_DELAY_S", defaults.drain_delay_s))
    return delay, delay + float(settings.get("SLUICE_DRAIN_TIMEOUT_S", defaults.drain_timeout_s)) + STORING_S


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_gives_its_process_the_time_that_it_needs(unit: Path) -> None:
    values = service(unit)
    if values["Type"] == ["oneshot"]:
        assert values["TimeoutStartSec"] == ["infinity"]  # a migration is not broken off
        return
    delay, total = drain_s(environment(unit))
    assert total < float(values["TimeoutStopSec"][0])
    assert (delay > IDLE_S) is (unit.name != "sluice.service")
    assert (values["Restart"], values["RestartPreventExitStatus"]) == (["always"], ["2"])
    assert "\nStartLimitIntervalSec=0\n" in unit.read_text("utf-8").partition("[Service]")[0]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_memory_is_not_written_and_executed_but_where_the_engine_compiles(unit: Path) -> None:
    assert ("MemoryDenyWriteExecute" in service(unit)) is (unit.name != "sluice.service")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_secrets_come_as_credentials(unit: Path) -> None:
    """A service gets the file of its own alone, and systemd shows the environment to everybody."""
    (credential,) = service(unit)["LoadCredential"]
    own = unit.stem.removeprefix("sluice-").rstrip("@")
    assert credential == f"sluice.toml:/etc/sluice/{own}.toml"
    assert environment(unit)["SLUICE_CONFIG"] == "%d/sluice.toml"
    assert not {"SLUICE_CLICKHOUSE_URL", "SLUICE_DATABASE_URL", "SLUICE_REDIS_URL"} & environment(unit).keys()


def test_compose_gives_processes_the_time_that_they_need() -> None:
    for name in ("gateway-1", "gateway-2", "query", "control"):
        delay, total = drain_s(OURS[name]["environment"])
        assert delay > IDLE_S
        assert total < float(OURS[name]["stop_grace_period"].removesuffix("s"))


def test_containers_have_no_more_rights_than_they_need() -> None:
    for name, each in OURS.items():
        assert each["read_only"], name
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name


def test_only_the_proxy_is_believed_and_published() -> None:
    published = {name for name, each in COMPOSE["services"].items() if "ports" in each}
    assert published == {"caddy"}
    address = COMPOSE["services"]["caddy"]["networks"]["default"]["ipv4_address"]
    for name in ("gateway-1", "gateway-2", "query", "control"):
        assert OURS[name]["environment"]["SLUICE_TRUSTED_PROXIES"] == address


def test_each_service_of_compose_has_its_own_user_of_clickhouse() -> None:
    users = {name: each.get("environment", {}).get("SLUICE_CLICKHOUSE_URL", "") for name, each in OURS.items()}
    found = {name: re.match(r"http://(\w+):", url)[1] for name, url in users.items() if url}  # type: ignore[index]
    assert found == {
        "migrate": "sluice_migrate",
        "gateway-1": "sluice_gateway",
        "gateway-2": "sluice_gateway",
        "query": "sluice_query",
        "control": "sluice_query",
    }


def test_users_of_compose_may_do_what_users_of_a_server_may() -> None:
    sql = (DEPLOY / "clickhouse/users.sql").read_text("utf-8")
    roles = {"sluice_migrate": "sluice_schema", "sluice_gateway": "sluice_writer", "sluice_query": "sluice_reader"}
    users = etree.parse(str(DEPLOY / "compose/clickhouse/users.xml")).getroot().find("users")
    assert users is not None
    for user, role in roles.items():
        granted = [query.text for query in users.findall(f"{user}/grants/query")]
        assert granted == [each.strip() for each in re.findall(rf"^(GRANT .* ON .*) TO {role};", sql, re.MULTILINE)]
    assert {each.tag for each in users if each.get("remove") is None} == roles.keys()
    profile = re.search(r"CREATE SETTINGS PROFILE .*?;", sql, re.DOTALL)
    reader = etree.parse(str(DEPLOY / "compose/clickhouse/users.xml")).getroot().find("profiles/sluice_reader")
    assert profile is not None
    assert reader is not None
    for name, value in re.findall(r"(\w+) = (\d+)", profile[0]):
        assert reader.findtext(name) == value


def _written(directory: Path) -> str:
    subprocess.run([str(directory / "secrets")], check=True, capture_output=True)
    return (directory / ".env").read_text("utf-8")


def test_secrets_are_made_once_and_kept_from_others(tmp_path: Path) -> None:
    for name in ("secrets", ".env.example"):
        shutil.copy(DEPLOY / "compose" / name, tmp_path / name)
    written = [_written(tmp_path) for _ in range(2)]
    assert written[0] == written[1]
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    example = (DEPLOY / "compose/.env.example").read_text("utf-8")
    names = re.findall(r"^([A-Z_]+)=$", example, re.MULTILINE)
    values = dict(re.findall(r"^([A-Z_]+)=([0-9a-f]{48})$", written[0], re.MULTILINE))
    assert list(values) == names
    assert len(set(values.values())) == len(names)
    text = (DEPLOY / "compose/compose.yaml").read_text("utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(names)


def test_files_that_containers_cannot_read_are_named_before_anything_starts(tmp_path: Path) -> None:
    for folder in ("compose", "proxy"):
        shutil.copytree(DEPLOY / folder, tmp_path / folder)
    (tmp_path / "proxy/Caddyfile").chmod(0o640)
    done = subprocess.run([str(tmp_path / "compose/start")], capture_output=True, text=True, check=False, timeout=30)
    said = "Containers read these files as other users: chmod o+r ../proxy/Caddyfile\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def pins(name: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{name}.lock").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==([^ ]+) ", text, re.MULTILINE))


def test_the_lock_of_the_image_is_that_of_run_without_the_engine() -> None:
    image, run = pins("image"), pins("run")
    assert image.items() <= run.items()
    assert run.keys() - image.keys() == {"chdb", "chdb-core", "numpy", "pandas", "python-dateutil", "tzdata"}


@pytest.mark.long
def test_the_tools_of_those_who_run_it_find_nothing() -> None:
    """`make check-deploy`."""
    done = subprocess.run(
        [str(ROOT / "scripts/check-deploy")],
        env={"DEPLOY_TOOLS": str(TOOLS), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert all(line.startswith("ok  ") for line in done.stdout.splitlines())
