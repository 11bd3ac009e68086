"""Where a process is killed: at any moment, or at a call that the layer sees (preload.c)."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.preload import Action, Call, Rule


class Point(NamedTuple):
    """A call at which the process dies: the first, second ... or `most`-th of its life."""

    action: Action
    call: Call
    pattern: str  # of a gateway {journal}: the directory, {store} and {own}: ports of ClickHouse and of its own
    most: int

    def rule(self, nth: int, **places: Path | int) -> Rule:
        """For one process; what the names in the pattern stand for."""
        return Rule(self.action, self.call, self.pattern.format(**places), nth)


_SEGMENT: Final = "{journal}/*.segment"
_LEDGER: Final = "{journal}/*ledger-*"
_STORE: Final = "tcp:*>{store}"
_CLIENTS: Final = "tcp:{own}>*"

UNDER_LOAD: Final[Mapping[str, Point]] = {
    "before an append": Point("die", "write", _SEGMENT, 30),
    "in an append": Point("tear", "write", _SEGMENT, 30),
    "before an append is synced": Point("die", "sync", _SEGMENT, 30),
    "when an append is synced": Point("die-after", "sync", _SEGMENT, 30),
    "before an answer to a client": Point("die", "send", _CLIENTS, 40),
    "after an answer to a client": Point("die-after", "send", _CLIENTS, 40),
    "before a segment is made": Point("die", "open", _SEGMENT, 4),
    "when a segment is made": Point("die-after", "open", _SEGMENT, 4),
    "before the directory is synced": Point("die", "sync", "{journal}/?", 3),
    "before an insert is sent": Point("die", "send", _STORE, 30),
    "when some of an insert is sent": Point("die-after", "send", _STORE, 30),
    "before the answer to an insert is read": Point("die", "recv", _STORE, 30),
    "when some of the answer to an insert is read": Point("die-after", "recv", _STORE, 30),
}
OF_RECORDS: Final[Mapping[str, Point]] = {
    "before a write to the ledger": Point("die", "write", _LEDGER, 12),
    "in a write to the ledger": Point("tear", "write", _LEDGER, 12),
    "before the ledger is synced": Point("die", "sync", _LEDGER, 12),
    "when the ledger is synced": Point("die-after", "sync", _LEDGER, 12),
    "before a segment is deleted": Point("die", "unlink", _SEGMENT, 2),
    "when a segment is deleted": Point("die-after", "unlink", _SEGMENT, 2),
    "in replay, before a read": Point("die", "read", _SEGMENT, 6),
    "in replay, when an insert is sent": Point("die-after", "send", _STORE, 6),
}
EVERY: Final[Mapping[str, Point]] = {**UNDER_LOAD, **OF_RECORDS}
_RECEIVER: Final = "tcp:*>{receiver}"
# Of `sluice control`, by its database.
_ANYWHERE: Final[Mapping[str, Point]] = {
    "before an answer to a client": Point("die", "send", _CLIENTS, 20),
    "after an answer to a client": Point("die-after", "send", _CLIENTS, 20),
    "before a message is sent": Point("die", "send", _RECEIVER, 20),
    "when a message is sent": Point("die-after", "send", _RECEIVER, 20),
    "before a receiver's answer is read": Point("die", "recv", _RECEIVER, 20),
    "when a receiver's answer is read": Point("die-after", "recv", _RECEIVER, 20),
}
OF_CONTROL: Final[Mapping[str, Mapping[str, Point]]] = {
    "sqlite": {
        **_ANYWHERE,
        "before a commit is written": Point("die", "write", "*-wal", 60),
        "in the writing of a commit": Point("tear", "write", "*-wal", 60),
        "before a commit is synced": Point("die", "sync", "*-wal", 40),
        "when a commit is synced": Point("die-after", "sync", "*-wal", 40),
    },
    "postgresql": {
        **_ANYWHERE,
        "before a statement is sent": Point("die", "send", "tcp:*>{database}", 200),
        "when a statement is sent": Point("die-after", "send", "tcp:*>{database}", 200),
    },
}
ANY_MOMENT: Final = "any moment"
ITS_START: Final = "its start"  # which with a journal is replay
UNNAMED: Final = (ANY_MOMENT, ITS_START)


class Round(NamedTuple):
    """One life of the gateway: where it ends; at an unnamed point after a delay in seconds, else at the n-th call."""

    point: str
    nth: int
    delay_s: float


def plan(seed: int, count: int, points: Mapping[str, Point]) -> list[Round]:
    """The same for the same seed: every point in turn, in an order of its own each time, unnamed ones a third."""
    chance = random.Random(seed)
    rounds: list[Round] = []
    while len(rounds) < count:
        names = [*points, *(UNNAMED * max(1, len(points) // 4))]
        chance.shuffle(names)
        for name in names:
            most = points[name].most if name in points else 1
            rounds.append(Round(name, chance.randint(1, most), chance.uniform(0.0, 0.5)))
    return rounds[:count]
