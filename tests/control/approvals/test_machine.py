"""Approvals as a state machine: whatever happens in whatever order, on both databases.

Members come and go, policies change, time passes, agents are handed over, requests are made, votes are cast one after
the other, or several at once by two processes while somebody loses a right and what is over is noted. A model that
knows nothing of the store says what must be: at most one transition of each request, no approval without enough people
who may decide, one of them independent, and no vote by someone without the right. It counts by trying combinations.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, select

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import memberships, principals
from chassis.db.database import Database
from chassis.errors import ApiError, NotFound
from control.approvals import store, voting
from control.approvals.bodies import NewRequest
from control.approvals.model import RequestRecord, Status
from control.approvals.notifications import ExpiryTask, LinkBuilder
from control.approvals.policies import store as policies
from control.approvals.policies.rules import DECIDING_ROLES
from control.approvals.requests import submit
from control.approvals.tables import approval_requests, approval_votes
from control.approvals.voting import Ballot
from control.audit.record import Actor, record
from control.audit.tables import audit_events
from control.audit.verify import verify_stored
from control.identity.organizations import organization_store
from control.routing.arguments import Transaction
from proto.identity import PrincipalKind, Role
from tests.control.approvals.office import POLICY, context
from tests.selection import scaled

ROLES = (Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OWNER)
START = datetime(2026, 11, 20, tzinfo=UTC)
PEOPLE = st.integers(0, 7)  # four people, three agents of two of them, and a service of the first agent
CHANGES = st.sampled_from((Role.MEMBER, Role.ADMIN, Role.OWNER, Role.MEMBER, Role.VIEWER, None, "disable"))
RECENT = st.integers(0, 2)  # the latest requests are voted on
APPROVES = st.integers(0, 11).map(lambda drawn: drawn != 11)  # a rejection ends a request, and its story
BALLOTS = st.lists(
    st.tuples(PEOPLE, st.booleans(), APPROVES), min_size=1, max_size=3
)  # who, on behalf of his owner, what


Rights = tuple[Role | None, bool]  # what one is, and whether he is disabled


@dataclass
class Person:
    """A principal, as the model knows it."""

    id: str
    kind: PrincipalKind
    owner: "Person | None" = None
    role: Role | None = Role.MEMBER
    disabled: bool = False

    @property
    def lineage(self) -> list["Person"]:
        return [self] if self.owner is None else [self, *self.owner.lineage]

    @property
    def rights(self) -> Rights:
        return self.role, self.disabled


class Vote(NamedTuple):
    """Who voted, in whose name, and who was of his circle then."""

    voter: Person
    behalf: Person | None
    circle_then: frozenset[str]

    @property
    def circle(self) -> frozenset[str]:
        return self.circle_then | circle(self.voter, self.behalf)


@dataclass
class Asked:
    """A request, as the model knows it: who asks, who voted, how it ended."""

    id: str
    by: Person
    behalf: Person | None
    minimum: int
    roles: tuple[Role, ...]
    machines: frozenset[str]
    expires: datetime
    circle_then: frozenset[str]
    votes: dict[str, Vote] = field(default_factory=dict)
    ended: Status | None = None

    @property
    def circle(self) -> frozenset[str]:
        return self.circle_then | circle(self.by, self.behalf)

    def may(self, voter: Person, behalf: Person | None) -> bool:
        everyone = voter.lineage + ([] if behalf is None else behalf.lineage)
        listed = voter.kind is PrincipalKind.USER or voter.id in self.machines
        return listed and all(one.role in self.roles and not one.disabled for one in everyone)

    def own(self, voter: Person, behalf: Person | None) -> bool:
        """Whether the vote would be one on what he, or for a machine those to whom it belongs, ask for."""
        machine = voter.kind is not PrincipalKind.USER
        return self.by in (voter, behalf) or (machine and bool(self.circle & circle(voter, behalf)))

    def usable(self) -> bool:
        """Whether nobody of those who ask has left or is disabled."""
        everyone = self.by.lineage + ([] if self.behalf is None else self.behalf.lineage)
        return all(one.role is not None and not one.disabled for one in everyone)

    def counted(self) -> list[Vote]:
        return [
            vote
            for vote in self.votes.values()
            if self.may(vote.voter, vote.behalf)
            and (vote.voter.kind is PrincipalKind.USER or not self.circle & vote.circle)
        ]

    def approvals(self) -> int:
        """The most votes of which no two have anybody in common."""
        counted = self.counted()
        return next(
            number
            for number in range(len(counted), -1, -1)
            for votes in combinations(counted, number)
            if not any(one.circle & other.circle for one, other in combinations(votes, 2))
        )

    def independent(self) -> bool:
        return any(not self.circle & one.circle for one in self.counted())

    def enough(self) -> bool:
        return self.approvals() >= self.minimum and self.independent()


def circle(person: Person, behalf: Person | None) -> frozenset[str]:
    return frozenset(one.id for one in person.lineage + ([] if behalf is None else behalf.lineage))


class Machine(RuleBasedStateMachine):
    runner: asyncio.Runner
    database: Database
    other: Database  # of another process
    numbers: Iterator[int]

    @initialize()
    def begin(self) -> None:
        self.now = START
        self.asked: list[Asked] = []
        self.run(self._begin())

    async def _begin(self) -> None:
        async with self.database.write() as connection:
            slug = f"org-{next(self.numbers)}"
            self.org = await organization_store.create_organization(connection, slug, slug)
            await record(connection, Actor(self.org.id), "organization.create", self.org.id, {}, "r")
            self.everyone = [await self._new(connection, None) for _ in range(4)]
            self.everyone += [await self._new(connection, self.everyone[n]) for n in (0, 0, 1)]
            self.everyone.append(await self._new(connection, self.everyone[4]))
            self.policy = (3, DECIDING_ROLES, frozenset(one.id for one in self.everyone[4:]))
            self.policy_id = await policies.create(connection, self.org.id, None, self._policy())

    async def _new(self, connection: Any, owner: Person | None) -> Person:
        kind = PrincipalKind.USER if owner is None else PrincipalKind.AGENT
        made = await organization_store.create_principal(connection, kind, "x", None if owner is None else owner.id)
        await organization_store.add_membership(connection, self.org.id, made.id, Role.MEMBER)
        return Person(made.id, kind, owner)

    def _policy(self) -> dict[str, Any]:
        minimum, roles, machines = self.policy
        votes = {"min_approvers": minimum, "approver_roles": list(roles), "machine_approver_ids": sorted(machines)}
        return POLICY | votes

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def reach(self, person: Person, behalf: Person | None) -> AuthorizationContext:
        """As the guard would have it at best; what it knows may be old, so votes do not go by it."""
        owner_id, behalf_id = (None if one is None else one.id for one in (person.owner, behalf))
        return replace(
            context(self.org, person.id, person.kind, owner_id, behalf_id, Role.OWNER), role=person.role or Role.MEMBER
        )

    @rule(person=PEOPLE, change=CHANGES, ballots=BALLOTS)
    def upset(self, person: int, change: Any, ballots: list[tuple[int, bool, bool]]) -> None:
        """Somebody is disabled, leaves, comes back, or gets another role; then others vote."""
        self.run(self._upset(self.database, self.everyone[person], change))
        self.learn_of_upset(self.everyone[person], change)
        self.vote(0, ballots)

    def learn_of_upset(self, person: Person, change: Any) -> None:
        person.role, person.disabled = (person.role, True) if change == "disable" else (change, person.disabled)

    async def _upset(self, database: Database, person: Person, change: Any) -> None:
        async with database.write() as connection:
            if change == "disable":
                await organization_store.disable_principal(connection, person.id)
                return
            where = (memberships.c.org_id == self.org.id) & (memberships.c.principal_id == person.id)
            await connection.execute(delete(memberships).where(where))
            if change is not None:
                await organization_store.add_membership(connection, self.org.id, person.id, change)

    @rule(agent=st.integers(4, 7), owner=st.integers(0, 3), then=st.lists(st.booleans(), max_size=3), ballots=BALLOTS)
    def hand_over(self, agent: int, owner: int, then: list[bool], ballots: list[tuple[int, bool, bool]]) -> None:
        """Those vote first whom it concerns: the owner of before, the one of now, and it."""
        handed, to = self.everyone[agent], self.everyone[owner]
        concerned = [self.everyone.index(handed.owner or handed), owner, agent]

        async def work() -> None:
            async with self.database.write() as connection:
                own = principals.c.id == handed.id
                await connection.execute(principals.update().where(own).values(owner_id=to.id))

        self.run(work())
        handed.owner = to
        self.vote(0, [*((n, False, approves) for n, approves in zip(concerned, then, strict=False)), *ballots])

    @rule(
        agent=st.integers(4, 7),
        owner=st.integers(0, 3),
        asks=st.booleans(),
        then=st.lists(st.booleans(), min_size=1, max_size=3),
    )
    def hand_over_meanwhile(self, agent: int, owner: int, asks: bool, then: list[bool]) -> None:
        """It asks, or approves what somebody else asks, and is handed over before the others vote."""
        self.create(agent if asks else (owner + 1) % 4, "ghijklmn"[len(self.asked) % 8], False, [(agent, False, True)])
        self.hand_over(agent, owner, then, [])

    @rule(
        minimum=st.sampled_from((3, 2, 4, 1)),
        roles=st.sampled_from((DECIDING_ROLES, DECIDING_ROLES, DECIDING_ROLES[:1], DECIDING_ROLES[1:])),
        unlisted=st.sets(st.integers(4, 7), max_size=2),
    )
    def change_policy(self, minimum: int, roles: tuple[Role, ...], unlisted: set[int]) -> None:
        self.policy = (
            minimum,
            roles,
            frozenset(one.id for one in self.everyone[4:]) - {self.everyone[n].id for n in unlisted},
        )
        self.run(self._change_policy(self.database, self._policy()))

    async def _change_policy(self, database: Database, values: dict[str, Any]) -> None:
        async with database.write() as connection:
            await policies.change(connection, self.org.id, self.policy_id, values)

    @rule(minutes=st.sampled_from((1, 1, 19, 60)))
    def wait(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(
        person=st.sampled_from((4, 5, 6, 7, 0, 1)),
        target_id=st.sampled_from("abcdef"),
        acting=st.booleans(),
        ballots=BALLOTS,
    )
    def create(self, person: int, target_id: str, acting: bool, ballots: list[tuple[int, bool, bool]]) -> None:
        by = self.everyone[person]
        behalf = by.owner if acting else None
        outcome = self.run(self._create(by, behalf, target_id))
        members = all(one.role is not None for one in by.lineage + ([] if behalf is None else behalf.lineage))
        if isinstance(outcome, ApiError):
            assert not members
            return
        assert members
        request, made = outcome
        open_ = [one for one in self.asked if (one.by, one.behalf) == (by, behalf) and self.is_open(one)]
        assert made == (request.id not in [one.id for one in open_])
        if made:
            expires = self.now + timedelta(minutes=60)
            self.asked.append(Asked(request.id, by, behalf, *self.policy, expires, circle(by, behalf)))
        self.vote(0, ballots)

    async def _create(self, by: Person, behalf: Person | None, target_id: str) -> Any:
        body = NewRequest(action="run.it", target_type="x", target_id=target_id)
        try:
            async with self.database.write() as connection:
                answered = await submit(
                    Transaction(connection, self.reach(by, behalf), "r"), body, LinkBuilder().for_org("acme"), self.now
                )
        except ApiError as error:
            return error
        return answered.request, answered.created

    def is_open(self, one: Asked) -> bool:
        return one.ended is None and one.expires > self.now

    @rule(request=RECENT, ballots=BALLOTS)
    def vote(self, request: int, ballots: list[tuple[int, bool, bool]]) -> None:
        """One after the other."""
        for ballot in ballots if self.asked else ():
            self._cast(self.asked[-1 - request % len(self.asked)], *ballot)

    def _cast(self, asked: Asked, person: int, acting: bool, approves: bool) -> None:
        voter = self.everyone[person]
        behalf = voter.owner if acting else None
        expected = self.expected(asked, voter, behalf, approves=approves)
        outcome = self.run(self._vote(self.database, asked, voter, behalf, approves=approves))
        if expected is not None:
            assert isinstance(outcome, ApiError), (expected, outcome)
            assert outcome.status == expected
            return
        assert not isinstance(outcome, ApiError), outcome.message
        self.apply(asked, voter, behalf, outcome, approves=approves)

    def expected(self, asked: Asked, voter: Person, behalf: Person | None, *, approves: bool) -> int | None:
        """The status of a refusal; None: none."""
        everyone = voter.lineage + ([] if behalf is None else behalf.lineage)
        if any(one.role is None for one in everyone):
            return 404
        rejecter = asked.votes["rejecter"].voter if "rejecter" in asked.votes else None
        again = voter.id in asked.votes if approves else rejecter is voter
        if again and asked.ended is (Status.APPROVED if approves else Status.REJECTED):
            return None
        if not self.is_open(asked):
            return 409
        if approves and not asked.usable():
            return 409
        withdraws = not approves and voter.id in circle(asked.by, asked.behalf)
        own = approves and asked.own(voter, behalf)
        return None if withdraws or (asked.may(voter, behalf) and not own) else 403

    def apply(
        self, asked: Asked, voter: Person, behalf: Person | None, outcome: voting.CastVote, *, approves: bool
    ) -> None:
        if asked.ended is not None:
            assert (outcome.idempotent, outcome.decided) == (True, False)
            return
        if not approves:
            asked.votes.pop(voter.id, None)
            asked.votes["rejecter"] = Vote(voter, behalf, circle(voter, behalf))
            asked.ended = Status.REJECTED
            assert (outcome.idempotent, outcome.decided, outcome.request.status) == (False, True, Status.REJECTED)
            return
        stands = any(one is asked.votes.get(voter.id) for one in asked.counted())
        if not stands:
            asked.votes[voter.id] = Vote(voter, behalf, circle(voter, behalf))
        assert (outcome.vote_count.approvals, outcome.vote_count.has_independent_approver) == (
            asked.approvals(),
            asked.independent(),
        )
        assert outcome.vote_count.is_sufficient == outcome.decided == asked.enough()
        assert outcome.idempotent == (stands and not outcome.decided)
        if outcome.decided:
            asked.ended = Status.APPROVED
            assert outcome.request.decider_id == voter.id

    async def _vote(
        self, database: Database, asked: Asked, voter: Person, behalf: Person | None, *, approves: bool
    ) -> Any:
        ballot = Ballot(self.reach(voter, behalf), asked.id, "because", "r", self.now)
        outcome, foretold = await self._vote_and_foretell(database, ballot, approves=approves)
        if isinstance(outcome, voting.CastVote):
            assert outcome.idempotent == (foretold is not None)
        elif not isinstance(outcome, NotFound):
            assert outcome.message == foretold
        return outcome

    async def _vote_and_foretell(
        self, database: Database, ballot: Ballot, *, approves: bool
    ) -> tuple[voting.CastVote | ApiError, str | None]:
        """The outcome, and what the rules say of the vote before it is cast."""
        vote, explain = (
            (voting.approve, voting.explain_approval) if approves else (voting.reject, voting.explain_rejection)
        )
        foretold = None
        try:
            async with database.write() as connection:
                request = await store.get(connection, self.org.id, ballot.request_id)
                (case,) = await voting.load_cases(connection, ballot.caller, [request])
                foretold = explain(case, self.now)
                return await vote(connection, ballot), foretold
        except ApiError as error:
            return error, foretold

    @precondition(lambda self: self.asked)
    @rule(
        request=RECENT,
        votes=st.lists(st.tuples(PEOPLE, APPROVES), min_size=2, max_size=6),
        upset=st.none() | st.tuples(PEOPLE, CHANGES),
        meanwhile=st.sets(st.sampled_from(("policy", "expiry"))),
    )
    def vote_at_once(
        self, request: int, votes: list[tuple[int, bool]], upset: tuple[int, Any] | None, meanwhile: set[str]
    ) -> None:
        """In any order, by two processes: what must be is held by what is in the store afterwards."""
        asked = self.asked[-1 - request % len(self.asked)]
        was_open = self.is_open(asked)
        before = [one.rights for one in self.everyone]
        outcomes = self.run(self._at_once(asked, votes, upset, meanwhile))
        if upset is not None:
            self.learn_of_upset(self.everyone[upset[0]], upset[1])
        decided = [one for one in outcomes if isinstance(one, voting.CastVote) and one.decided]
        assert len(decided) <= (1 if was_open else 0)
        had_ended = asked.ended is not None
        self.run(self._learn(asked, before))
        assert (asked.ended is not None) == (had_ended or bool(decided))

    async def _at_once(
        self, asked: Asked, votes: list[tuple[int, bool]], upset: tuple[int, Any] | None, meanwhile: set[str]
    ) -> list[Any]:
        works: list[Awaitable[Any]] = [
            self._vote((self.database, self.other)[place % 2], asked, self.everyone[n], None, approves=approves)
            for place, (n, approves) in enumerate(votes)
        ]
        if upset is not None:
            works.insert(1, self._upset(self.other, self.everyone[upset[0]], upset[1]))
        if "policy" in meanwhile:
            works.insert(1, self._change_policy(self.database, self._policy() | {"min_approvers": 1}))
        if "expiry" in meanwhile:
            works.insert(2, ExpiryTask(self.other, LinkBuilder(), now=lambda: self.now).poll_once())
        outcomes = await asyncio.gather(*works)
        await self._change_policy(self.database, self._policy())
        return outcomes

    async def _learn(self, asked: Asked, before: list[Rights]) -> None:
        """Votes and end as the store has them. Rights count that were there before, or are there now."""
        now = [one.rights for one in self.everyone]
        async with self.database.read() as connection:
            request = await store.get(connection, self.org.id, asked.id)
            rows = await connection.execute(select(approval_votes).where(approval_votes.c.request_id == asked.id))
            found = {row.principal_id: row for row in rows}
        known = {one.id: one for one in self.everyone}
        earlier, asked.votes = asked.votes, {}
        for id_, row in found.items():
            behalf = None if row.on_behalf_of is None else known[row.on_behalf_of]
            might = self.ever(before, now, partial(asked.may, known[id_], behalf))
            if row.verdict == "APPROVE":
                assert id_ in earlier or (might and not asked.own(known[id_], behalf))
                vote = Vote(known[id_], behalf, circle(known[id_], behalf))
                asked.votes[id_] = vote if vote.circle_then == {*row.circle} else earlier[id_]
                assert asked.votes[id_].circle_then == {*row.circle}
            else:
                asked.votes["rejecter"] = Vote(known[id_], behalf, frozenset())
                assert id_ in circle(asked.by, asked.behalf) or might or "rejecter" in earlier
        if asked.ended is None and request.status is Status.APPROVED:
            assert self.ever(before, now, lambda: asked.enough() and asked.usable())
        asked.ended = None if request.status is Status.PENDING else request.status

    def ever(self, before: list[Rights], now: list[Rights], holds: Callable[[], bool]) -> bool:
        """Whether it holds with everybody as he was before, or as he is now."""
        found = []
        for each in (before, now):
            for person, rights in zip(self.everyone, each, strict=True):
                person.role, person.disabled = rights
            found.append(holds())
        return any(found)

    @invariant()
    def the_store_says_the_same(self) -> None:
        if getattr(self, "asked", None):
            self.run(self._check())

    async def _check(self) -> None:
        async with self.database.read() as connection:
            rows = await connection.execute(
                select(approval_requests.c.id).where(approval_requests.c.org_id == self.org.id)
            )
            assert {row.id for row in rows} == {one.id for one in self.asked}
            ends = select(audit_events.c.object_id).where(
                audit_events.c.org_id == self.org.id,
                audit_events.c.action.in_(["approval_request.approve", "approval_request.reject"]),
            )
            expired = audit_events.c.action == "approval_request.expire"
            over = select(audit_events.c.object_id).where(audit_events.c.org_id == self.org.id, expired)
            noted = list((await connection.execute(over)).scalars())
            assert len(set(noted)) == len(noted)
            assert set(noted) <= {one.id for one in self.asked if one.ended is None and not self.is_open(one)}
            ended = sorted((await connection.execute(ends)).scalars())
            assert ended == sorted(one.id for one in self.asked if one.ended is not None), "one transition each"
            for asked in self.asked:
                self._compare(asked, await store.get(connection, self.org.id, asked.id))

    def _compare(self, asked: Asked, request: RequestRecord) -> None:
        waits = Status.PENDING if asked.expires > self.now else Status.EXPIRED
        assert request.status_at(self.now) == (asked.ended or waits)
        assert request.min_approvers == asked.minimum
        if request.status is Status.APPROVED:
            assert (request.approvals or 0) >= asked.minimum
            assert request.independent

    def teardown(self) -> None:
        if getattr(self, "asked", None) is not None:
            checked = self.run(verify_stored(self.database, self.org.id, self.org.slug, {}))
            assert checked.first_break is None


@pytest.mark.sized
@pytest.mark.both_stores
def test_no_sequence_and_no_interleaving_breaks_an_approval(migrated_url: str) -> None:
    with asyncio.Runner() as runner:
        database, other = Database(migrated_url, max_wait_s=10.0), Database(migrated_url, max_wait_s=10.0)
        runner.run(database.start())
        runner.run(other.start())
        bound = {"runner": runner, "database": database, "other": other, "numbers": iter(range(10**6))}
        made = type("Bound", (Machine,), bound)
        try:
            run_state_machine_as_test(
                made,
                settings=settings(
                    max_examples=scaled(4, 200) if migrated_url.startswith("sqlite") else scaled(1, 60),
                    stateful_step_count=30,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(database.close())
            runner.run(other.close())
