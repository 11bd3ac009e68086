"""Fault 21: bodies that are small on the wire and enormous in memory. 413 or 400, memory bounded, others served."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tests.faults.bombs import BOMBS, Bomb
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Site
from tests.faults.hostile import MIB, memory_below, post
from tests.faults.loading import loaded, more
from tests.selection import scaled

AT_ONCE: Final = 4
TIMES: Final = scaled(1, 2)
MOST: Final = 500 * MIB  # of the whole process: AT_ONCE bodies of 64 MiB, and what it has in any case
MOST_TAKEN: Final = 700 * MIB  # the same while the largest bodies are taken, which the budget of 512 MiB pays for


@pytest.mark.sized
def test_fault_21_bombs(make_gateway: MakeGateway, site: Site, run: str) -> None:
    gateway = make_gateway(layered=False)
    gateway.start()
    bombs = {name: make() for name, make in BOMBS.items()}
    with loaded(gateway, site, run) as load, ThreadPoolExecutor(AT_ONCE) as senders:
        more(load)

        def throw(bomb: Bomb) -> int:
            headers = {"Content-Type": bomb.media, "Content-Encoding": bomb.encoding}
            return post(gateway, site, bomb.content, headers).status

        def throw_all(name: str, bomb: Bomb) -> None:
            statuses = set(senders.map(throw, [bomb] * AT_ONCE * TIMES))
            assert bomb.status in statuses, (name, statuses)
            assert statuses <= {bomb.status, 503}, (name, statuses)  # 503: together they are too much
            more(load, 1)

        largest = {"json-largest": bombs.pop("json-largest")}
        for thrown, most in ((bombs, MOST), (largest, MOST_TAKEN)):
            with memory_below(gateway, most):
                for name, bomb in thrown.items():
                    throw_all(name, bomb)
        more(load)
    assert gateway.metric("sluice_gateway_inflight_bytes") == 0
