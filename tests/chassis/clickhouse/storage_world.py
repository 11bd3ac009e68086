"""A model of everything that decides about storage order, run by a schedule of random events: one ClickHouse whose
clock is set and which crashes, gateways whose clocks run at other speeds, and followers that are killed between pages.

Real are the floor of inserts and the reader; modelled are the tables, the running inserts and the clocks.
"""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from chassis.clickhouse.storage_order import (
    DISTANCE_US,
    Checkpoint,
    Position,
    StorageOrderReader,
    StoredRow,
    StoredRowList,
)
from chassis.clickhouse.stored_time import READ_INTERVAL_S, ClockReading, StoredTimeFloor, floor_of

US: Final = 1_000_000
EPOCH_S: Final = 1_763_868_000.0
HOLD_S: Final = 600.0  # how long gateways can insert lost blocks again
LOST_S: Final = 30.0  # a power loss takes parts that are younger

Item = tuple[int, int, int]  # batch, day, row


class Block(NamedTuple):
    """Rows of one day of a batch; `row` counts through its days."""

    batch_id: int
    day: int
    row_numbers: range


class Insert(NamedTuple):
    """A running insert: its rows get the time of its start."""

    block: Block
    comment: str
    stored_us: int


class ModelTable:
    """What every model of a table has."""

    def no_rows(self) -> StoredRowList:
        return StoredRowList()


class Server(ModelTable):
    """ClickHouse: a clock, the blocks that it has, and the inserts that run."""

    def __init__(self) -> None:
        self.true_s = EPOCH_S
        self.offset_s = 0.0  # of its clock
        self.stored: dict[tuple[int, int], tuple[int, float, range]] = {}  # block -> stored_us, true time, rows
        self.running: list[Insert] = []

    @property
    def now_us(self) -> int:
        return int((self.true_s + self.offset_s) * US)

    def read_clock(self) -> ClockReading:
        future = (stored_us for stored_us, _, _ in self.stored.values() if stored_us > self.now_us)
        return ClockReading(self.now_us, max(future, default=0))

    def begin(self, block: Block, comment: str) -> None:
        floor = floor_of(comment)
        assert floor is not None
        self.running.append(Insert(block, comment, max(self.now_us, floor)))

    def commit(self, at: int) -> None:
        """The part becomes visible, unless its token is known."""
        block, _, stored_us = self.running.pop(at)
        self.stored.setdefault((block.batch_id, block.day), (stored_us, self.true_s, block.row_numbers))

    def crash(self, chance: random.Random, *, loses: bool) -> list[Block]:
        """The running inserts end, committed or not; returns the blocks that are lost."""
        while self.running:
            if chance.random() < 0.5:
                self.commit(0)
            else:
                self.running.pop(0)
        if not loses:
            return []
        young = [key for key, (_, at, _) in self.stored.items() if self.true_s - at < LOST_S and chance.random() < 0.5]
        return [Block(*key, self.stored.pop(key)[2]) for key in young]

    # As a follower sees it.

    async def settled_time(self) -> int:
        floors = [floor for insert in self.running if (floor := floor_of(insert.comment)) is not None]
        return min([self.now_us, *floors]) - DISTANCE_US

    async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
        found = [
            StoredRow(position, day, ())
            for (batch_id, day), (stored_us, _, rows) in self.stored.items()
            if after.stored_us <= stored_us <= until_us
            for row in rows
            if (position := Position(stored_us, batch_id, row)) > after
        ]
        return StoredRowList(sorted(found)[:limit])

    async def first_time(self, after_us: int, until_us: int) -> int | None:
        times = (stored_us for stored_us, _, _ in self.stored.values() if after_us < stored_us <= until_us)
        return min(times, default=None)


class Gateway:
    """Inserts with a floor, by a monotonic clock that runs at another speed."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        self._server = server
        rate, start = 1 + chance.uniform(-500e-6, 500e-6), chance.uniform(0, 1e6)
        self._floor = StoredTimeFloor(lambda: start + (server.true_s - EPOCH_S) * rate)
        self._floor.insert_comment(server.read_clock)

    def begin(self, block: Block) -> None:
        self._server.begin(block, self._floor.insert_comment(self._server.read_clock))


class Follower:
    """Reads pages and keeps its checkpoint as text, as one that is killed at any time would."""

    def __init__(self, server: Server, page: int) -> None:
        self._server = server
        self._page = page
        self._checkpoint = Checkpoint().encode()
        self._reader = StorageOrderReader(server)
        self._last = Position(0, 0, 0)
        self.seen: set[Item] = set()

    async def poll(self) -> bool:
        """Read one page; returns whether it was the last. Nothing comes twice or before what was read."""
        page = await self._reader.read(Checkpoint.decode(self._checkpoint), limit=self._page)
        for row in page.rows:
            assert row.position > self._last, f"{row} comes after {self._last}"
            self._last = row.position
            item = (row.position.batch_id, row.day, row.position.row)
            assert item not in self.seen, f"{item} comes twice"
            self.seen.add(item)
        self._checkpoint = page.checkpoint.encode()
        return page.is_last

    def restart(self) -> None:
        self._reader = StorageOrderReader(self._server)


class World:
    """One schedule. Parts are lost in some, the clock goes back in others: a power loss that takes parts and sets the
    clock back at once, under gateways that start afterwards, is the case that storage order does not cover.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._server = Server()
        self._gateways = [Gateway(self._server, self._chance) for _ in range(2)]
        self._followers = [Follower(self._server, page) for page in (3, 1_000)]
        self._open: list[Block] = []  # begun by a gateway that does not know the outcome
        self._gone: list[tuple[float, Block]] = []  # lost, and when
        self._written: set[Item] = set()
        self._forward_at_s = 0.0
        self._steps_back = seed % 3 != 0
        self._loses = seed % 3 != 1
        self._restarts = seed % 3 != 2

    async def run(self, events: int) -> None:
        """Events in random order; then everything ends well, and each follower has read each row once."""
        actions = (
            (self._pass_time, 6),
            (self._begin, 6),
            (self._commit, 6),
            (self._retry, 2),
            (self._set_clock, 1),
            (self._crash_server, 1),
            (self._restart_gateway, 1),
            (self._restart_follower, 1),
        )
        names, weights = [action for action, _ in actions], [weight for _, weight in actions]
        for action in self._chance.choices(names, weights, k=events):
            action()
            if self._chance.random() < 0.3:
                await self._chance.choice(self._followers).poll()
        await self._end()

    async def _end(self) -> None:
        while self._server.running:
            self._commit()
        while self._open or self._gone:
            self._retry()
            while self._server.running:
                self._commit()
        latest = max((stored_us for stored_us, _, _ in self._server.stored.values()), default=0)
        behind_s = max(0.0, (latest - self._server.now_us) / US)
        self._server.true_s += behind_s + 1.0
        for follower in self._followers:
            while not await follower.poll():
                pass
            missing = self._written - follower.seen
            assert not missing, f"{len(missing)} rows were skipped: {sorted(missing)[:5]}"

    def _pass_time(self) -> None:
        self._server.true_s += self._chance.choice((0.001, 0.05, 0.5, 2.0, 20.0)) * self._chance.random()

    def _begin(self) -> None:
        batch_id = self._chance.getrandbits(63)
        first = 0
        for day in self._chance.sample((20_000, 20_001, 19_990), k=self._chance.choice((1, 1, 2))):  # late data too
            block = Block(batch_id, day, range(first, first + self._chance.randint(1, 5)))
            first = block.row_numbers.stop
            self._written |= {(batch_id, day, row) for row in block.row_numbers}
            self._chance.choice(self._gateways).begin(block)
            self._open.append(block)

    def _commit(self) -> None:
        if self._server.running:
            self._server.commit(self._chance.randrange(len(self._server.running)))

    def _retry(self) -> None:
        """A gateway learns what became of its blocks, and inserts those again that are not there."""
        now = self._server.true_s
        blocks, self._open = self._open, []
        again = [block for _, block in self._gone]
        self._gone = []
        for block in (*blocks, *again):
            key = (block.batch_id, block.day)
            if key in self._server.stored:
                continue
            self._open.append(block)
            if not any(insert.block == block for insert in self._server.running):
                self._chance.choice(self._gateways).begin(block)
        assert now == self._server.true_s

    def _set_clock(self) -> None:
        """Somebody, or a time service, sets ClickHouse's clock: not back shortly after it was set forward."""
        if self._steps_back and self._chance.random() < 0.5:
            if self._server.true_s - self._forward_at_s > READ_INTERVAL_S * 1.001:
                self._server.offset_s -= self._chance.choice((0.05, 0.2, 2.0, 60.0, 3_600.0)) * self._chance.random()
        else:
            self._server.offset_s += self._chance.choice((0.05, 5.0, 60.0)) * self._chance.random()
            self._forward_at_s = self._server.true_s

    def _crash_server(self) -> None:
        loses = self._loses and self._chance.random() < 0.5
        for block in self._server.crash(self._chance, loses=loses):
            self._gone.append((self._server.true_s, block))
        if self._gone:
            self._retry()  # what is held is checked as soon as ClickHouse is available again
        if self._steps_back and not self._loses and self._chance.random() < 0.3:
            self._set_clock()

    def _restart_gateway(self) -> None:
        if self._restarts or not (self._steps_back and self._loses):
            at = self._chance.randrange(len(self._gateways))
            self._gateways[at] = Gateway(self._server, self._chance)

    def _restart_follower(self) -> None:
        self._chance.choice(self._followers).restart()


async def run_schedules(seeds: Sequence[int], events: int = 120) -> None:
    """Run schedules by seed; the message of a failure names the seed."""
    for seed in seeds:
        try:
            await World(seed).run(events)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
