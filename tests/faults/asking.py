"""People who ask for approvals and decide them, whatever becomes of the service; and whether channels were told."""

import threading
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, pairwise
from typing import Any, Final

import sqlalchemy as sa

from control.approvals.tables import approval_requests
from control.notify.channels.tables import TERMINAL_STATES, State, deliveries
from tests.e2e.product import eventually
from tests.faults.office import Office

ASKED: Final = "approval.requested"
PAUSE_S: Final = 0.05
UNDECIDED: Final = 3  # requests of a thread, before it decides the oldest: some are told of by then, some are not
AT_LEAST: Final = UNDECIDED + 4  # requests of a thread: it decides the first four, each in another way
VERDICTS: Final[tuple[tuple[str, dict[str, str], bool], ...]] = (
    ("approve", {}, True),
    ("reject", {"reason": "no"}, True),
    ("reject", {"reason": "withdrawn"}, False),
)
_TTL_MINUTES: Final = 1_000  # not days, in which a channel that fails a little would be switched off
_STEP_MINUTES: Final = 10  # longer than the second pause
_STEPS: Final = 20
_SETTLED_S: Final = 60.0


@dataclass
class People:
    """`number` threads. Each asks, a little later decides most of it in one way or the other, and goes on asking,
    for at least AT_LEAST requests.
    """

    office: Office
    number: int = 3
    asked: dict[str, str] = field(default_factory=dict)  # ids by target
    again: int = 0  # calls that were repeated
    faults: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Begin."""
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in range(self.number)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Let what is begun come to its end, which takes a service that runs."""
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.faults.append("somebody got no answer")

    def _run(self, one: int) -> None:
        waiting: deque[tuple[str, int]] = deque()
        try:
            for number in count(1):
                if self._over.is_set() and number > AT_LEAST:
                    return
                self._ask(f"{one}-{number}", number, waiting)
                if len(waiting) > UNDECIDED:
                    self._decide(*waiting.popleft())
                time.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 (told by whoever reads the faults)
            self.faults.append(repr(error))

    def _ask(self, target: str, number: int, waiting: deque[tuple[str, int]]) -> None:
        body = {
            "action": "deploy.production",
            "targetType": "service",
            "targetId": target,
            "channelIds": list(self.office.channels),
            "ttlMinutes": 10 if number % 4 == 0 else _TTL_MINUTES,
        }
        status, said, again = self.office.answered("POST", "/approval-requests", body)
        self.again += again
        if status not in {200, 201} or (status == 200 and not again):
            self.faults.append(f"asked for {target}: {status} {said}")
            return
        self.asked[target] = said["request"]["id"]
        waiting.append((said["request"]["id"], number))

    def _decide(self, request_id: str, number: int) -> None:
        """Approve, reject, withdraw, or leave it to expire. It may be decided by a call that got no answer."""
        if number % 4 == 0:
            return
        verb, body, as_approver = VERDICTS[number % 4 - 1]
        path = f"/approval-requests/{request_id}/{verb}"
        status, said, again = self.office.answered("POST", path, body, as_approver=as_approver)
        self.again += again
        if status != 200 and not (status == 409 and again):
            self.faults.append(f"{verb} of {request_id}: {status} {said}")


@dataclass
class Told:
    """What came of it. `faults` is empty when every channel was told of everything, under one id, in order."""

    asked: int = 0
    decided: Counter[str] = field(default_factory=Counter)
    arrived: int = 0
    repeated: int = 0
    overtaken: int = 0  # questions that never left, for the request ended first
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(f"{number} {name.partition('.')[2]}" for name, number in sorted(self.decided.items()))
        return (
            f"{self.asked} requests ({ends}); {self.arrived} messages arrived, {self.repeated} more than once; "
            f"{self.overtaken} questions were over before they left; faults: {self.faults[:5] or 'none'}"
        )


def settled(office: Office, people: People) -> Told:
    """Let time pass, between two lives, until nothing waits and every request has ended; then compare."""
    for minutes in (_TTL_MINUTES, *[_STEP_MINUTES] * _STEPS):
        office.stop()
        office.pass_by(60 * minutes)
        office.start()
        eventually(lambda: not _waiting(office, office.now()), "nothing is due", _SETTLED_S)
        if not _waiting(office, None):
            break
    return compared(office, people)


def _waiting(office: Office, now: datetime | None) -> bool:
    """Whether there is something to do by then; None: ever."""
    table, requests = deliveries.c, approval_requests.c
    due = sa.true() if now is None else (table.next_at <= now) | (table.state == State.SENDING.value)
    waiting = sa.select(table.id).where(table.state.not_in([state.value for state in TERMINAL_STATES]), due)
    over = sa.true() if now is None else requests.expires_at <= now
    unnoted = sa.select(requests.id).where(requests.status == "PENDING", requests.expiry_noted.is_(False), over)
    return bool(office.rows(waiting.limit(1)) or office.rows(unnoted.limit(1)))


def compared(office: Office, people: People) -> Told:
    """What was acknowledged, what the store says and what arrived."""
    told = Told(len(people.asked), faults=list(people.faults))
    arrived: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for one in office.receiver.arrived:
        arrived[one.path, one.request_id].append(one)
    rows: dict[tuple[str, str], list[Any]] = defaultdict(list)
    columns = (deliveries.c.id, deliveries.c.subject, deliveries.c.channel_id, deliveries.c.type, deliveries.c.state)
    for row in office.rows(sa.select(*columns)):
        rows[office.channels[row.channel_id], row.subject].append(row)
    requests = office.rows(sa.select(approval_requests).order_by(approval_requests.c.id))
    _compare_requests(told, people, requests)
    for request in requests:
        for path in office.channels.values():
            _compare(told, rows[path, request.id], arrived[path, request.id], f"{request.id} {path}")
    return told


def _compare_requests(told: Told, people: People, requests: list[Any]) -> None:
    """Each that was acknowledged is there, and no second one was made beside it."""
    made: dict[str, list[Any]] = defaultdict(list)
    for request in requests:
        made[request.target_id].append(request)
    for target, request_id in people.asked.items():
        if request_id != made[target][-1].id:
            told.faults.append(f"{target}: {request_id} is lost")
        if any(later.created_at < earlier.expires_at for earlier, later in pairwise(made[target])):
            told.faults.append(f"{target}: was asked for twice")


def _compare(told: Told, rows: list[Any], arrived: list[Any], name: str) -> None:
    """The deliveries of one request to one channel, and what arrived there of them."""
    ids = Counter(one.id for one in arrived)
    told.arrived += len(ids)
    told.repeated += sum(number > 1 for number in ids.values())
    questions = [row for row in rows if row.type == ASKED]
    ends = [row for row in rows if row.type != ASKED]
    if len(questions) != 1 or len(ends) > 1:
        told.faults.append(f"{name}: deliveries {rows}")
        return
    told.decided.update(row.type for row in ends)
    if not ids.keys() <= {row.id for row in rows} or len({(one.id, one.body) for one in arrived}) != len(ids):
        told.faults.append(f"{name}: what is repeated is not the same")
    question_arrived = questions[0].id in ids
    if not question_arrived and questions[0].state != State.CANCELLED.value:
        told.faults.append(f"{name}: its question is {questions[0].state} and did not arrive")
    told.overtaken += not question_arrived
    if (ends or question_arrived) and not (ends and ends[0].state == State.DONE.value and ends[0].id in ids):
        told.faults.append(f"{name}: its end did not arrive: {ends}")
    kinds = [one.type == ASKED for one in arrived]
    if kinds != sorted(kinds, reverse=True):
        told.faults.append(f"{name}: a question came after its end")
