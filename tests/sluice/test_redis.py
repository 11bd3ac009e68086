"""The command with a Redis: shared by its processes, away, looked at by `sluice doctor`, its password never shown."""

import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from tests.redis_server import PASSWORD, RedisServer

from .conftest import DEADLINE_S, Start, Up, refusal, sluice, wait_until

SECRETS = (PASSWORD, quote(PASSWORD, safe=""))


def export(up: Up, key: str) -> tuple[int, str | None]:
    """Status of an empty export, and how many requests its answer says are left."""
    request = urllib.request.Request(f"{up.url}/v1/traces", b"{}", {"Content-Type": "application/json"})
    request.add_header("X-Legacy-Auth", f"Legacy legacy_key={key}")
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, answer.headers["x-ratelimit-remaining"]
    except urllib.error.HTTPError as error:
        return error.code, error.headers["x-ratelimit-remaining"]


def test_processes_share_their_rates_and_continue_without_redis(
    start: Start, own_redis: RedisServer, tmp_path: Path
) -> None:
    rate = {"SLUICE_OTLP_RATE": "1", "SLUICE_OTLP_BURST": "3600", "SLUICE_API_RATE": "1", "SLUICE_API_BURST": "100"}
    settings = {**rate, "SLUICE_REDIS_URL": own_redis.url, "SLUICE_REDIS_TIMEOUT_S": "5"}
    database = {"SLUICE_DATABASE_URL": f"sqlite:///{tmp_path / 'shared.db'}"}
    first = start(data=tmp_path / "first", **settings, **database)
    second = start(data=tmp_path / "second", **settings, **database)
    made = first.credentials()
    for up in (first, second, first, second):
        assert export(up, made["legacyKey"])[0] == 200
    assert export(first, made["legacyKey"])[1] in {"3595", "3596"}, "one a second comes back"
    status, ready = second.get("/readyz")
    (redis,) = (one for one in ready["dependencies"] if one["name"] == "redis")
    assert (status, redis) == (200, {"name": "redis", "ok": True, "error": None, "required": False})
    own_redis.stop()
    for up in (first, second):
        assert export(up, made["legacyKey"]) == (200, "3599")
        assert up.get("/orgs/default/projects", made["accessToken"])[0] == 200
    wait_until(lambda: not _seen(second)["ok"])
    assert second.get("/readyz")[0] == 200
    wait_until(lambda: "redis unavailable" in first.log.read_text())
    own_redis.start()
    wait_until(lambda: "redis recovered" in first.log.read_text())
    wait_until(
        lambda: export(first, made["legacyKey"])[0] == 200 and bool(own_redis.ask("KEYS", "sluice:limit:otlp:*"))
    )
    for up in (first, second):
        assert up.stop() == 0
        assert not any(secret in up.log.read_text() + "".join(up.said) for secret in SECRETS)


def _seen(up: Up) -> dict[str, object]:
    """What `/readyz` says of Redis."""
    seen: dict[str, object] = next(one for one in up.get("/readyz")[1]["dependencies"] if one["name"] == "redis")
    return seen


def test_doctor_reports_the_redis_version_and_that_it_responds(redis_server: RedisServer, tmp_path: Path) -> None:
    settings = {"SLUICE_DATA": str(tmp_path), "SLUICE_REDIS_TIMEOUT_S": "5"}
    line = _line(sluice("doctor", SLUICE_REDIS_URL=redis_server.url, **settings).stdout)
    assert line["ok"]
    assert str(line["detail"]).startswith(f"redis://127.0.0.1:{redis_server.port}/0: version ")


def test_doctor_reports_what_is_wrong_with_it(redis_server: RedisServer, tmp_path: Path) -> None:
    url = redis_server.url_at(redis_server.port, "wr:o@ng")
    done = sluice("doctor", SLUICE_DATA=str(tmp_path), SLUICE_REDIS_URL=url)
    line = _line(done.stdout)
    assert (done.returncode, line["ok"]) == (1, False)
    assert "cannot be used: invalid username-password pair" in str(line["detail"])
    assert not any(secret in done.stdout + done.stderr for secret in ("wr:o@ng", quote("wr:o@ng", safe="")))


def _line(shown: str) -> dict[str, object]:
    """That of Redis, as people read it."""
    line = next(line for line in shown.splitlines() if " redis " in line and "aiohttp" not in line)
    return {"ok": line.startswith("ok"), "detail": line[3:].strip().removeprefix("redis").strip()}


def test_config_knows_it_and_hides_its_password(redis_server: RedisServer) -> None:
    done = sluice("config", SLUICE_REDIS_URL=redis_server.url)
    assert "SLUICE_REDIS_URL = ********\n" in done.stdout
    assert not any(secret in done.stdout for secret in SECRETS)


def test_an_invalid_url_is_one_sentence(tmp_path: Path) -> None:
    url = "redis://:hu#sh@host:6379"
    assert refusal(sluice("up", "--data", tmp_path / "data", "--port", "0", SLUICE_REDIS_URL=url), 2) == (
        "SLUICE_REDIS_URL must have the form redis://user:password@host:port/0, with the password percent-encoded."
    )
