"""How deliveries are received, whoever sends them: limits, refusals, each once."""

import asyncio
import logging
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import organizations
from chassis.db.database import to_milliseconds
from control.code.pushes import PushReport, report_plain_pushes, report_push
from control.inbound.integrations import store
from control.inbound.integrations.tables import IntegrationKind, inbound_deliveries
from control.inbound.webhooks import api
from control.inbound.webhooks.forges import effects
from control.inbound.webhooks.forges.events import ScmEvent
from control.inbound.webhooks.forges.github import GitHub
from control.inbound.webhooks.receiver import UNCOUNTED_BYTES, WebhookReceiver
from control.issues.releases.tables import commits
from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import serving
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.sending import SECRET, Scm, encoded, hex_of, result

Serve = Callable[..., AbstractAsyncContextManager[Scm]]
GITHUB = IntegrationKind.GITHUB


@pytest.fixture
def serve(migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path) -> Serve:
    """The service with other limits."""

    @asynccontextmanager
    async def serve(settings: ControlSettings | None = None, **chassis: Any) -> AsyncIterator[Scm]:
        settings = settings or ControlSettings()
        async with serving(migrated_url, tmp_path, settings, tenants=tenants, **chassis) as control:
            yield Scm.of(control, tmp_path)

    return serve


def push(number: int, message: str = "x") -> dict[str, Any]:
    return payloads.github_push(number, payloads.github_commit(f"f{number:06x}", message))


async def deliveries(scm: Scm) -> list[tuple[str, str, int, str | None]]:
    """Event, status, attempts and error of each."""
    found = sa.select(inbound_deliveries).order_by(inbound_deliveries.c.id)
    return [(row.event, row.status, row.attempts, row.error) for row in await scm.rows(found)]


async def test_the_path_names_a_platform_and_an_integration(scm: Scm) -> None:
    named = await scm.integrate(GITHUB, hook_id="17")
    disabled = await scm.integrate(GITHUB, enabled=False)
    gitea = await scm.integrate(IntegrationKind.GITEA)
    answer: Any = None
    missing = named.id[:-1] + ("0" if named.id[-1] != "0" else "1")
    for path, status in (
        (f"/webhooks/scm/github?hook={named.id}", 200),
        (f"/webhooks/scm/gitea?hook={named.id}", 404),
        (f"/webhooks/scm/github?hook={gitea.id}", 404),
        (f"/webhooks/scm/github?hook={disabled.id}", 404),
        (f"/webhooks/scm/github?hook={missing}", 404),
        (f"/webhooks/scm/github?hook={named.id}&hook={named.id}", 404),
        ("/webhooks/scm/github?hook=", 404),
        ("/webhooks/scm/github?hook=%00", 404),
        ("/webhooks/scm/github", 404),
        (f"/webhooks/scm/linear?hook={named.id}", 404),
        (f"/webhooks/scm/GitHub?hook={named.id}", 404),
        ("/webhooks/scm/" + "x" * 32, 404),
        ("/webhooks/scm/" + "x" * 33, 400),
    ):
        answered, answer, _ = await scm.send(named, "ping", {"zen": path}, path=path)
        assert answered == status, path
        if status == 404:
            assert answer["error"]["message"] == "Not found."
    assert answer["error"]["details"][0]["path"] == "path.provider"
    body = encoded({"zen": "by header"})
    signed = {"X-Hub-Signature-256": "sha256=" + hex_of(body)}
    for hook_id, status in (("17", 200), ("18", 404), ("x" * 129, 404)):
        headers = signed | {"X-GitHub-Hook-ID": hook_id}
        assert (await scm.send(named, "ping", body, headers=headers, path="/webhooks/scm/github"))[0] == status
    twin = await scm.integrate(GITHUB, hook_id="17", secret="another of this test", tenant=scm.control.globex)
    for number, (integration, secret) in enumerate(((named, SECRET), (twin, "another of this test"))):
        body = encoded(push(number))
        headers = {"X-Hub-Signature-256": "sha256=" + hex_of(body, secret), "X-GitHub-Hook-ID": "17"}
        assert (await scm.send(integration, "push", body, headers=headers, path="/webhooks/scm/github"))[0] == 200
        of_org = sa.select(sa.func.count()).where(commits.c.org_id == integration.org_id)
        assert (await scm.rows(of_org))[0][0] == 1
    async with scm.control.client.get("/webhooks/scm/github") as answered_get:
        assert answered_get.status == 405


async def test_too_many_failures_refuse_what_they_named_and_nothing_else(serve: Serve) -> None:
    """An address is not a sender: all customers of a platform send from its addresses."""
    async with serve(failed_webhook_rate=3) as scm:
        attacked, other = await scm.integrate(GITHUB), await scm.integrate(GITHUB)
        for number in range(5):  # good signatures are counted nowhere
            await scm.accepted(attacked, "ping", {"zen": str(number)})
        refused: list[tuple[int, str]] = []
        headers: Any = None
        for _ in range(4):
            status, answer, headers = await scm.send(attacked, "ping", {}, secret="wrong")
            refused.append((status, answer["error"]["code"]))
        assert refused == [*[(401, "unauthorized")] * 3, (429, "rate_limited")]
        assert int(headers["Retry-After"]) > 0
        assert (await scm.send(attacked, "ping", {"zen": ""}))[0] == 429
        paths = ("/webhooks/scm/github", "/webhooks/scm/nobody", "/webhooks/integrations/nobody")
        statuses = [(await scm.send(other, "ping", {}, path=path))[0] for path in (*paths, *paths)]
        assert statuses == [*[404] * 3, *[429] * 3]
        assert (await scm.send(other, "ping", {"zen": ""}))[0] == 200
        assert (await scm.control.call("GET", "/orgs/acme/projects"))[0] == 200


async def test_an_integration_has_a_rate_and_a_body_a_size(serve: Serve) -> None:
    async with serve(ControlSettings(webhook_max_body_bytes=65_536), webhook_rate=2, failed_webhook_rate=0) as scm:
        one, other = await scm.integrate(GITHUB), await scm.integrate(GITHUB)
        large = encoded({"zen": "x" * 65_536})
        status, answer, _ = await scm.send(one, "ping", large)
        assert (status, answer["error"]["code"]) == (413, "payload_too_large")
        found = await asyncio.gather(*(scm.send(one, "ping", {"zen": str(number)}) for number in range(8)))
        assert {status for status, _, _ in found} == {200, 429}
        assert all("Retry-After" in headers for status, _, headers in found if status == 429)
        assert (await scm.send(other, "ping", {"zen": ""}))[0] == 200


async def test_slow_large_bodies_keep_nobody_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address has a share of what is read at once; small bodies need none."""
    held, hold = Counter[str](), WebhookReceiver.hold

    def watched_hold(self: WebhookReceiver, address: str, size: int) -> bool:
        held[address] += size
        return hold(self, address, size)

    monkeypatch.setattr(WebhookReceiver, "hold", watched_hold)
    async with serve(trusted_proxies=["127.0.0.1"]) as scm:
        integration = await scm.integrate(GITHUB)
        path = f"/webhooks/scm/github?hook={integration.id}"
        slow = [await _begin(scm, path, "192.0.2.1", 8 * 2**20) for _ in range(5)]
        answers = [asyncio.create_task(reader.readline()) for reader, _ in slow]
        (refused,), holding = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result().startswith(b"HTTP/1.1 503")
        async with asyncio.timeout(10):
            while held.total() < 4 * (8 * 2**20 - 1 - UNCOUNTED_BYTES):  # the others are read as far as they are sent
                await asyncio.sleep(0.01)
        for address, body, status in (
            ("192.0.2.1", {"zen": "x" * 2**20}, 503),
            ("192.0.2.1", {"zen": ""}, 200),
            ("192.0.2.2", {"zen": "x" * 2**20}, 200),
        ):
            headers = {"X-Forwarded-For": address, "X-Hub-Signature-256": f"sha256={hex_of(encoded(body))}"}
            assert (await scm.send(integration, "ping", body, headers=headers))[0] == status
        assert not any(one.done() for one in holding)
        for _, writer in slow:
            writer.close()
        await asyncio.gather(*holding, return_exceptions=True)


async def test_a_large_body_is_parsed_beside_other_requests(scm: Scm, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many bytes of them wait."""
    started, released, parse = threading.Event(), threading.Event(), GitHub.parse

    def slow_parse(self: GitHub, event: str, body: bytes, received_at: datetime) -> ScmEvent:
        if len(body) > 2**20:
            started.set()
            released.wait(5)
        return parse(self, event, body, received_at)

    monkeypatch.setattr(GitHub, "parse", slow_parse)
    monkeypatch.setattr(api, "MAX_WAITING_BYTES", 2**21)
    integration = await scm.integrate(GITHUB)
    large = asyncio.create_task(scm.send(integration, "ping", {"zen": "x" * 2**20}))
    await asyncio.to_thread(started.wait, 5)
    assert (await scm.send(integration, "ping", {"zen": "small"}))[0] == 200
    assert (await scm.send(integration, "ping", {"zen": "y" * 2**20}))[0] == 503
    assert not large.done()
    released.set()
    assert (await large)[0] == 200
    assert (await scm.send(integration, "ping", {"zen": "y" * 2**20}))[0] == 200


async def test_a_body_is_kept_if_it_is_small_compressed(scm: Scm) -> None:
    integration = await scm.integrate(GITHUB)
    for zen in ("x" * 2**20, random.Random(1).randbytes(200_000).hex()):
        await scm.accepted(integration, "ping", {"zen": zen})
    kept = await scm.rows(sa.select(inbound_deliveries.c.body.is_not(None)).order_by(inbound_deliveries.c.id))
    assert [row[0] for row in kept] == [True, True]
    await scm.accepted(integration, "ping", {"zen": random.Random(1).randbytes(600_000).hex()})
    newest = sa.select(inbound_deliveries.c.body).order_by(inbound_deliveries.c.id.desc()).limit(1)
    assert (await scm.rows(newest))[0].body is None


async def _begin(scm: Scm, path: str, address: str, length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request that has sent its body but for the last byte."""
    reader, writer = await asyncio.open_connection(scm.control.client.host, scm.control.client.port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {address}\r\nContent-Length: {length}"
    writer.write(head.encode() + b"\r\n\r\n" + b"x" * (length - 1))
    return reader, writer


@pytest.mark.both_stores
async def test_a_delivery_is_applied_once(scm: Scm) -> None:
    """Several at once, and again later; another integration has its own."""
    one, other = await scm.integrate(GITHUB), await scm.integrate(GITHUB, tenant=scm.control.globex)
    answers = await scm.accepted_together(one, [("push", push(1))] * 10)
    answers.append(await scm.accepted(one, "push", push(1)))
    assert answers == [result("push", commitsUpserted=1)] * 11
    assert await scm.accepted(other, "push", push(1)) == result("push", commitsUpserted=1)
    assert await deliveries(scm) == [("push", "processed", 1, None)] * 2


@pytest.mark.both_stores
async def test_what_fails_leaves_nothing_and_is_applied_when_it_is_sent_again(
    scm: Scm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And what arrives with it is applied."""

    async def poison(connection: Any, push: PushReport) -> None:
        if push.commits[0].message == "poison":
            raise RuntimeError("a secret detail")
        if push.commits[0].message == "broken statement":
            await connection.execute(sa.text("SELECT * FROM nowhere"))

    async def poisoned(connection: Any, author: Any, push: PushReport) -> Any:
        reported = await report_push(connection, author, push)
        await poison(connection, push)
        return reported

    async def poisoned_together(connection: Any, author: Any, pushes: Sequence[PushReport]) -> Any:
        reported = await report_plain_pushes(connection, author, pushes)
        for push in pushes:
            await poison(connection, push)
        return reported

    one = await scm.integrate(GITHUB)
    monkeypatch.setattr(effects, "report_push", poisoned)
    monkeypatch.setattr(effects, "report_plain_pushes", poisoned_together)
    sent = [push(1), push(2, "poison"), push(3), push(4, "broken statement"), push(5), {"ref": 1, "commits": []}]
    with caplog.at_level(logging.CRITICAL):
        answers = await asyncio.gather(*(scm.send(one, "push", body) for body in sent))
    assert [status for status, _, _ in answers] == [200, 500, 200, 500, 200, 400]
    assert "secret detail" not in str(answers)
    stored = {row.sha[:7] for row in await scm.rows(sa.select(commits.c.sha))}
    assert stored == {"f000001", "f000003", "f000005"}
    kept = sorted(await deliveries(scm), key=str)
    assert [(event, status) for event, status, _, _ in kept] == [("push", "failed")] * 3 + [("push", "processed")] * 3
    assert {error for _, _, _, error in kept} == {
        None,
        "The delivery could not be processed.",
        "The body is not a valid push event: Expected `string`, got `integer` - at `$.ref`.",
    }
    monkeypatch.setattr(effects, "report_push", report_push)
    monkeypatch.setattr(effects, "report_plain_pushes", report_plain_pushes)
    for body in (sent[1], sent[3], sent[1]):
        assert await scm.accepted(one, "push", body) == result("push", commitsUpserted=1)
    assert (await scm.send(one, "push", sent[5]))[0] == 400
    assert sorted(attempts for _, _, attempts, _ in await deliveries(scm)) == [1, 1, 1, 2, 2, 2]


@pytest.mark.both_stores
async def test_a_changed_integration_counts_at_once(scm: Scm) -> None:
    """Though its secrets are kept for a moment."""
    one = await scm.integrate(GITHUB)
    assert (await scm.send(one, "push", push(1)))[0] == 200
    now = to_milliseconds(datetime.now(UTC))
    async with scm.control.checks.database.write() as connection:
        box = scm.secret_box
        one = await store.rotate_secret(connection, box, one, "the next of this test", previous_until=None, now=now)
    assert (await scm.send(one, "push", push(2)))[0] == 401
    assert (await scm.send(one, "push", push(2), secret="the next of this test"))[0] == 200
    until = now.replace(year=now.year + 1)
    async with scm.control.checks.database.write() as connection:
        one = await store.rotate_secret(connection, box, one, "the third of this test", previous_until=until, now=now)
    for number, secret in enumerate(("the next of this test", "the third of this test"), 3):
        assert (await scm.send(one, "push", push(number), secret=secret))[0] == 200
    assert (await scm.send(one, "push", push(5)))[0] == 401
    async with scm.control.checks.database.write() as connection:
        one = await store.change_integration(connection, one, now=now, enabled=False)
    assert (await scm.send(one, "push", push(6), secret="the third of this test"))[0] == 404
    async with scm.control.checks.database.write() as connection:
        one = await store.change_integration(connection, one, now=now, enabled=True)
    assert (await scm.send(one, "push", push(6), secret="the third of this test"))[0] == 200
    async with scm.control.checks.database.write() as connection:
        await store.delete_integration(connection, one)
    assert (await scm.send(one, "push", push(7), secret="the third of this test"))[0] == 404
    assert len(await scm.rows(sa.select(commits.c.id))) == 5
    assert await deliveries(scm) == []


@pytest.mark.both_stores
async def test_a_deleted_organization_receives_nothing(scm: Scm) -> None:
    """Also a moment later, when its secrets are still kept."""
    one = await scm.integrate(GITHUB)
    assert (await scm.send(one, "push", push(1)))[0] == 200
    async with scm.control.checks.database.write() as connection:
        of_org = organizations.update().where(organizations.c.id == one.org_id)
        await connection.execute(of_org.values(deleted_at=datetime.now(UTC)))
    assert (await scm.send(one, "push", push(2)))[0] == 404
    assert len(await scm.rows(sa.select(commits.c.id))) == 1


async def test_many_deliveries_share_transactions(scm: Scm) -> None:
    several = [await scm.integrate(GITHUB) for _ in range(3)]
    begun = 0
    write = scm.control.checks.database.write

    def counted() -> Any:
        nonlocal begun
        begun += 1
        return write()

    scm.control.checks.database.write = counted  # type: ignore[method-assign]
    sent = [(integration, push(number)) for number in range(20) for integration in several]
    found = await asyncio.gather(*(scm.send(integration, "push", body) for integration, body in sent))
    assert {status for status, _, _ in found} == {200}
    assert sum(answer["commitsUpserted"] for _, answer, _ in found) == 20
    assert begun < 20
