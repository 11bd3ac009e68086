"""What integrations have delivered: listed, shown, processed again."""

import hashlib
from typing import Any

import msgspec
import pytest

from control.inbound.integrations.tables import inbound_deliveries
from tests.control.conftest import Control
from tests.control.inbound.webhooks.trackers.sent import new_integration, send, standard
from tests.control.issues.releases.stored import new_project

PING = {"event": "ping"}


async def deliveries(control: Control, made: dict[str, Any], **params: str) -> list[dict[str, Any]]:
    _, page, _ = await control.call("GET", f"/orgs/acme/integrations/{made['id']}/deliveries", params=params)
    return list(page["data"])


def redelivery(made: dict[str, Any], delivery: dict[str, Any]) -> str:
    return f"/orgs/acme/integrations/{made['id']}/deliveries/{delivery['id']}/redeliver"


@pytest.mark.both_stores
async def test_deliveries_are_listed_with_their_outcome(control: Control) -> None:
    made = await new_integration(control, "generic")
    failing = {"event": "change.flag", "change": {"title": "x", "project": "api"}}
    raw = msgspec.json.encode(PING)
    assert (await send(control, made, raw, headers=standard(made["secret"], raw, "msg_1")))[0] == 200
    assert (await send(control, made, failing))[0] == 400
    assert (await send(control, made, raw, headers=standard(made["secret"], raw, "msg_1")))[0] == 200, "doubled"
    assert (await send(control, made, {"no": "event"}))[0] == 400, "there is nothing to store"
    first, second = await deliveries(control, made)
    zeros = {"changeEventsCreated": 0, "issuesUpdated": 0, "linksUpdated": 0}
    assert second == {
        "id": second["id"],
        "event": "ping",
        "key": "msg_1",
        "status": "processed",
        "result": {"received": True, "event": "ping"} | zeros,
        "failure": None,
        "attempts": 1,
        "receivedAt": second["receivedAt"],
        "processedAt": second["receivedAt"],
        "redeliverable": True,
    }
    assert (first["status"], first["result"], first["attempts"]) == ("failed", None, 1)
    assert first["failure"] == "change.project is not a project of the organization."
    assert first["key"] == hashlib.sha256(msgspec.json.encode(failing)).hexdigest()
    assert await deliveries(control, made, status="failed") == [first]
    assert await deliveries(control, made, status="processed") == [second]
    path = f"/orgs/acme/integrations/{made['id']}/deliveries"
    assert (await control.call("GET", f"{path}/{first['id']}"))[:2] == (200, first)
    assert (await control.call("GET", path, params={"status": "lost"}))[0] == 400

    assert (await send(control, made, failing))[0] == 400, "tried again"
    assert (await deliveries(control, made, status="failed"))[0]["attempts"] == 2
    status, still, _ = await control.call("POST", redelivery(made, first))
    assert (status, still["status"], still["attempts"]) == (200, "failed", 3)
    await new_project(control, "api")
    status, done, _ = await control.call("POST", redelivery(made, first))
    assert (status, done["status"], done["failure"], done["attempts"]) == (200, "processed", None, 4)
    assert done["result"] == {"received": True, "event": "change.flag"} | zeros | {"changeEventsCreated": 1}
    status, again, _ = await control.call("POST", redelivery(made, first))
    assert (status, again["result"]["changeEventsCreated"], again["attempts"]) == (200, 0, 5)
    _, audit, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "integration.redeliver"})
    assert [one["data"] for one in audit["data"]] == [{"deliveryId": first["id"], "event": "change.flag"}] * 3


async def test_what_cannot_be_redelivered(control: Control) -> None:
    made = await new_integration(control, "generic")
    assert (await send(control, made, PING))[0] == 200
    [one] = await deliveries(control, made)
    integration = f"/orgs/acme/integrations/{made['id']}"
    for enabled, expected in ((False, 409), (True, 200)):
        assert (await control.call("PATCH", integration, {"enabled": enabled}))[0] == 200
        assert (await control.call("POST", redelivery(made, one)))[0] == expected
    async with control.checks.database.write() as connection:
        await connection.execute(inbound_deliveries.update().values(body=None))
    status, answer, _ = await control.call("POST", redelivery(made, one))
    assert (status, answer["error"]["message"]) == (409, "The body of the delivery is not kept.")
    assert [each["redeliverable"] for each in await deliveries(control, made)] == [False]
    other = await new_integration(control, "generic")
    assert (await control.call("POST", redelivery(other, one)))[0] == 404


async def test_a_large_body_is_processed_and_not_kept(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.inbound.integrations.store.MAX_STORED_BODY", 64)
    made = await new_integration(control, "generic")
    noise = {"event": "ping", "noise": hashlib.sha512(b"x").hexdigest()}
    assert (await send(control, made, noise))[0] == 200
    assert [one["redeliverable"] for one in await deliveries(control, made)] == [False]
