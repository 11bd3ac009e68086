"""What the locust file sends is what the gateway takes: every item of every kind."""

from random import Random

from benchmarks.locust.mix import KINDS, Mix, export
from tests.gateway.conftest import RecordingStore, StartGateway


async def test_every_item_is_accepted(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore())
    sent = [export(kind, Random(number)) for kind in KINDS for number in range(5)]
    for one in sent:
        answer = await gateway.post(one.path, one.body, one.headers)
        assert (answer.status, answer.body) in ((200, b""), (200, b"{}")), answer
    assert gateway.metric("items_total", outcome="accepted") == sum(one.items for one in sent)
    assert gateway.metric("items_total", outcome="rejected") == 0


def test_bodies_are_kept_and_now_and_then_made_anew() -> None:
    mix = Mix(1)
    bodies = [mix.next(KINDS[0]).body for _ in range(1_000)]
    assert 12 < len(set(bodies)) <= 12 + 1_000 // 40
