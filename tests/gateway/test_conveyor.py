"""What happens behind the answer of a request that is acknowledged before it is stored."""

from chassis.clickhouse import ClickHouse
from tests.gateway.conftest import RecordingStore, StartGateway, eventually
from tests.gateway.otlp import span, traces


async def test_what_is_acknowledged_is_stored(start_gateway: StartGateway, clickhouse: ClickHouse) -> None:
    store = RecordingStore(clickhouse)
    gateway = await start_gateway(store, durability="memory")
    assert (await gateway.post("/v1/traces", traces(span(1), span(2)))).status == 200
    await eventually(lambda: gateway.metric("stored_items_total") == 2)
    assert gateway.metric("pending_items") == 0


async def test_what_waits_is_stored_before_a_stop(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, durability="memory", journal_linger_s=30.0)
    for n in range(1, 4):
        assert (await gateway.post("/v1/traces", traces(span(n)))).status == 200
    await gateway.stop()
    assert gateway.metric("stored_items_total") == 3
