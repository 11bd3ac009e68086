"""SIGKILL and power cuts, again and again under load: nothing acknowledged is lost, nothing is stored twice.

`python -m tests.faults.kills --count 1000` is the same with every point, for as long as one likes.
"""

import pytest

from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Site
from tests.faults.kills import Kills, kill_again_and_again
from tests.faults.points import EVERY, OF_RECORDS, UNDER_LOAD
from tests.faults.zygote import Zygote
from tests.ports import free_port
from tests.selection import scaled


def accounted_for(done: Kills) -> None:
    """Every record is where it belongs, and the kills came in the midst of something, half of them or more where
    planned: a busy machine passes over some. A few kills may all have come between two requests.
    """
    assert done.records.faults == {}, done
    assert done.records.unanswered == 0, done
    assert done.records.resent > 0 or scaled(True, False), done
    assert done.reached.total() >= done.passed_over.total(), done
    print(done)  # noqa: T201 (with its seed)


@pytest.mark.sized
@pytest.mark.parametrize(("protocol", "few"), [("http", 5), ("grpc", 3)])
def test_fault_01_sigkill_under_load(
    make_gateway: MakeGateway, zygote: Zygote, site: Site, protocol: str, few: int
) -> None:
    gateway = make_gateway(zygote=zygote, grpc_port=free_port() if protocol == "grpc" else 0)
    accounted_for(kill_again_and_again(site, gateway, seed=1, count=scaled(few, 60), points=UNDER_LOAD))


@pytest.mark.sized
def test_fault_02_sigkill_in_replay_checkpoint_and_deletion(
    make_gateway: MakeGateway, zygote: Zygote, site: Site
) -> None:
    gateway = make_gateway(zygote=zygote)
    accounted_for(kill_again_and_again(site, gateway, seed=2, count=scaled(6, 80), points=OF_RECORDS))


@pytest.mark.sized
@pytest.mark.parametrize("seed", [4, pytest.param(5, marks=pytest.mark.long)])
def test_fault_04_power_cut(make_gateway: MakeGateway, zygote: Zygote, site: Site, seed: int) -> None:
    """Of a machine whose disk keeps what it was told to sync; its page cache is what is lost."""
    gateway = make_gateway(zygote=zygote, shadow=True)
    done = kill_again_and_again(site, gateway, seed=seed, count=scaled(4, 40), points=EVERY)
    accounted_for(done)
    assert done.cut.pages_lost > 0
