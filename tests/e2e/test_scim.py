"""What a directory takes out works nowhere any more: every credential, on several processes, within the promised times.

At once in the process that took the request; elsewhere within a second with Redis, within five without. `-rP` shows the
figures.
"""

import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.directories import (
    UNDECIDED,
    Cluster,
    Grabber,
    Organization,
    Person,
    Probe,
    Watch,
    new_organization,
    running,
)
from tests.e2e.product import Service
from tests.redis_server import RedisServer
from tests.selection import scaled

WITH_REDIS_S: Final = 1.0
WITHOUT_REDIS_S: Final = 5.0
LATER_S: Final = scaled(0.5, 6.0)  # after a return: longer than anything is cached
MANNERS: Final = ("PATCH", "PUT", "DELETE")
ORGANIZATIONS: Final = scaled(2, 8)  # side by side: a change makes guards look up again what is of its organization
ROUNDS: Final = scaled(2, 25)  # of each organization, one after the other
PATIENCE_S: Final = 30.0  # until nothing is accepted any more, were the bounds not held
KILLS: Final = 9
OUTAGES: Final = 6


@dataclass
class Figures:
    """What was measured: seconds from the answer to the last request that was still accepted, by where it was."""

    rounds: int = 0
    requests: int = 0
    grabbed: int = 0
    undecided: int = 0
    longest: dict[str, float] = field(default_factory=lambda: {"taker": 0.0, "control": 0.0, "query": 0.0})
    slowest_request: float = 0.0
    late: list[str] = field(default_factory=list)

    def add(self, place: str, watch: Watch, moment: float, bound: float) -> None:
        """Measure a watch. Late is what was accepted after the bound and the time of one request."""
        accepted, request = watch.accepted_after(moment), watch.longest_request(moment)
        self.requests += len(watch.samples)
        self.undecided += sum(sample.status == UNDECIDED for sample in watch.samples)
        self.longest[place] = max(self.longest[place], accepted)
        self.slowest_request = max(self.slowest_request, request)
        if not watch.is_over:
            self.late.append(f"{place}: not refused at the end")
        if accepted > (bound + request if bound else 0.0):
            names = Counter(
                (sample.name, sample.status)
                for sample in watch.samples
                if sample.is_accepted and sample.started > moment + bound
            )
            self.late.append(f"{place}: {accepted:.3f} s, requests took {request:.3f} s: {dict(names)}")

    def show(self, seconds: float | None = None) -> None:
        """To the test's output."""
        longest = ", ".join(f"{place} {late:.3f} s" for place, late in self.longest.items())
        sys.stdout.write(
            f"{self.rounds} rounds{'' if seconds is None else f' in {seconds:.0f} s'}, {self.requests} requests"
            f" ({self.undecided} answered 503), {self.grabbed} credentials made meanwhile; accepted longest after the"
            f" answer: {longest}; slowest request {self.slowest_request:.3f} s\n"
        )


@dataclass(frozen=True)
class Round:
    """One person who is taken out and taken back."""

    organization: Organization
    number: int
    bound: float
    figures: Figures

    @property
    def cluster(self) -> Cluster:
        return self.organization.cluster

    @property
    def taker(self) -> Service:
        return self.cluster.controls[self.number % len(self.cluster.controls)]

    @property
    def others(self) -> list[Service]:
        return [service for service in self.cluster.controls if service is not self.taker]

    @property
    def manner(self) -> str:
        """Each from each process, in nine rounds."""
        return MANNERS[(self.number + self.number // len(MANNERS)) % len(MANNERS)]

    async def run(self) -> Coroutine[Any, Any, None]:
        """Play it; the rest is what is looked at later."""
        person = await self.organization.hire(self.number, adopted=self.number % 4 == 3)
        watches = self.organization.watch(person)
        grabber = Grabber(self.cluster, self.others[0], self.organization, person, refreshes=not self._refreshes_late)
        grabbing: asyncio.Task[None] | None = None
        try:
            for watch in watches:
                await watch.until_used()
            grabbing = asyncio.create_task(grabber.run())
            await asyncio.sleep(random.uniform(0, 0.2))  # wherever the requests of others are
            moment = await self.organization.take_out(person, self.manner, self.taker)
            for watch in watches:
                watch.hurry()
            await asyncio.gather(
                self._check_what_ends_at_once(person),
                grabbing,
                *(watch.until_refused(PATIENCE_S) for watch in watches),
            )
        finally:
            if grabbing is not None:
                grabbing.cancel()
            for watch in watches:
                await watch.stop()
        for watch in watches:
            place = "taker" if watch.service is self.taker else watch.service.command
            self.figures.add(place, watch, moment, 0.0 if place == "taker" else self.bound)
        self.figures.grabbed += len(grabber.grabbed)
        assert [at for at in grabber.times if at > moment] == [], "made after the answer"
        self.figures.rounds += 1
        session = await self.organization.take_back(person, self.manner, self.others[-1])
        for service in self.cluster.controls:
            assert await Watch(self.cluster, service, [session]).statuses() == {session.name: 200}
        return self._check_later(person, [*person.probes, *grabber.grabbed])

    @property
    def _refreshes_late(self) -> bool:
        """A refresh that is refused ends the session too: in half of the rounds it has to have ended by itself."""
        return self.number % 2 == 1

    async def _check_what_ends_at_once(self, person: Person) -> None:
        """What is read from the database, by whichever process."""
        if not self._refreshes_late:
            await self._check_refresh(person)
        assert await self.organization.accept_invitation(person, self.others[0]) == 401
        voted = await self.organization.vote(person.request_id, self.organization.approver, self.others[1])
        assert (voted["request"]["status"], voted["approvals"]) == ("PENDING", 1), voted

    async def _check_refresh(self, person: Person) -> None:
        for service, token in itertools.product(self.cluster.controls, person.refresh_tokens):
            reply = await self.cluster.call(service, "POST", "/auth/refresh", {"refreshToken": token})
            assert reply.status == 401, reply

    async def _check_later(self, person: Person, probes: list[Probe]) -> None:
        """Nothing of what was before comes back with the person."""
        for seconds in (0.0, LATER_S):
            await asyncio.sleep(seconds)
            for service in (*self.cluster.controls, self.cluster.query):
                statuses = await Watch(self.cluster, service, probes).statuses()
                assert set(statuses.values()) == {401}, (service.command, self.manner, statuses)
        await self._check_refresh(person)
        assert await self.organization.accept_invitation(person, self.taker) == 401


async def play(cluster: Cluster, organizations: int, rounds: int, bound: float) -> Figures:
    """Rounds in organizations side by side; each makes its own wait."""
    figures = Figures()

    async def play_one(number: int) -> None:
        organization = await new_organization(cluster, f"org-{number}", has_successor=number % 2 == 1)
        first = number * rounds
        for each in range(rounds):
            tasks.create_task(await Round(organization, first + each, bound, figures).run())

    started = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in range(organizations):
            tasks.create_task(play_one(number))
    figures.show(time.monotonic() - started)
    return figures


@pytest.mark.sized
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("has_redis", [True, pytest.param(False, marks=pytest.mark.long)], ids=["redis", "alone"])
async def test_whom_a_directory_takes_out_gets_in_nowhere(
    tmp_path: Path, migrated_url: str, redis_server: RedisServer, *, has_redis: bool
) -> None:
    bound, redis_url = (WITH_REDIS_S, redis_server.url) if has_redis else (WITHOUT_REDIS_S, "")
    async with running(tmp_path, migrated_url, redis_url) as cluster:
        figures = await play(cluster, ORGANIZATIONS, ROUNDS, bound)
    assert figures.late == []
    assert figures.rounds == ORGANIZATIONS * ROUNDS


@dataclass(frozen=True)
class Interrupted:
    """One person who is taken out while something else ends."""

    organization: Organization
    number: int
    figures: Figures

    async def run(self, before: Callable[[], object], after: Callable[[Service], object]) -> None:
        """Take the person out between `before` and `after`, which is called with the process that has answered."""
        cluster = self.organization.cluster
        taker = cluster.controls[self.number % len(cluster.controls)]
        person = await self.organization.hire(self.number, adopted=False)
        watches = self.organization.watch(person)
        try:
            for watch in watches:
                await watch.until_used()
            before()
            moment = await self.organization.take_out(person, MANNERS[self.number % len(MANNERS)], taker)
            after(taker)
            for watch in watches:
                watch.hurry()
            await asyncio.gather(*(watch.until_refused(PATIENCE_S) for watch in watches))
        finally:
            for watch in watches:
                await watch.stop()
        for watch in watches:
            place = "taker" if watch.service is taker else watch.service.command
            self.figures.add(place, watch, moment, 0.0 if place == "taker" else WITHOUT_REDIS_S)
        self.figures.rounds += 1


@pytest.mark.long
@pytest.mark.parametrize("has_redis", [True, False], ids=["redis", "alone"])
async def test_what_was_answered_holds_though_the_process_is_killed(
    tmp_path: Path, migrated_url: str, redis_server: RedisServer, *, has_redis: bool
) -> None:
    redis_url, figures = redis_server.url if has_redis else "", Figures()
    async with running(tmp_path, migrated_url, redis_url) as cluster:
        organization = await new_organization(cluster, "acme", has_successor=False)
        for number in range(KILLS):
            await Interrupted(organization, number, figures).run(lambda: None, Service.kill)
            await asyncio.to_thread(cluster.controls[number % len(cluster.controls)].start)
    figures.show()
    assert figures.late == []


@pytest.mark.long
async def test_a_redis_that_does_not_answer_costs_five_seconds(
    tmp_path: Path, migrated_url: str, own_redis: RedisServer
) -> None:
    figures = Figures()
    as_shipped = {"SLUICE_REDIS_TIMEOUT_S": "0.05"}
    async with running(tmp_path, migrated_url, own_redis.url, **as_shipped) as cluster:
        organization = await new_organization(cluster, "acme", has_successor=False)
        for number in range(OUTAGES):
            end, back = ((own_redis.stop, own_redis.start), (own_redis.pause, own_redis.resume))[number % 2]
            await Interrupted(organization, number, figures).run(end, lambda _: None)
            back()
    figures.show()
    assert figures.late == []
