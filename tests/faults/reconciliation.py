"""Sent, acknowledged and stored, compared record by record.

acknowledged - stored = 0
a record that was sent once is stored at most once, one that was sent n times at most n times
stored - sent = 0, nor is anything stored that was rejected
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from tests.faults.records import Export

Stored = Mapping[tuple[int, int], int]  # copies by client and sequence


@dataclass
class Reconciliation:
    """Counts of records. What is under `faults` must be 0."""

    sent: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    resent: int = 0  # sent again after an attempt without a 200
    again: int = 0  # copies of these beyond the first: their senders' doing
    stored: int = 0  # copies of all
    requests: int = 0
    attempts: int = 0
    lost: int = 0
    doubled: int = 0  # copies beyond the times that a record was sent
    rejected_and_stored: int = 0
    never_sent: int = 0
    damaged: int = 0
    wrong_answers: int = 0

    @property
    def faults(self) -> dict[str, int]:
        """What is not as promised; empty if all is well."""
        names = ("lost", "doubled", "rejected_and_stored", "never_sent", "damaged", "wrong_answers")
        return {name: value for name in names if (value := getattr(self, name))}

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in asdict(self).items())


def reconcile(exports: Iterable[Export], stored: Stored, damaged: int = 0) -> Reconciliation:
    """Compare what clients did with what a run left in the tables. `damaged`: rows whose sum is wrong."""
    found, left = Reconciliation(damaged=damaged, stored=sum(stored.values())), dict(stored)
    for export in exports:
        found.requests += 1
        found.attempts += len(export.answers)
        found.wrong_answers += bool(export.wrong)
        found.rejected_and_stored += sum(left.pop((export.client, sequence), 0) for sequence in export.bad)
        _compare(found, export, [left.pop((export.client, sequence), 0) for sequence in export.good])
    found.never_sent = sum(left.values())
    return found


def _compare(found: Reconciliation, export: Export, copies: list[int]) -> None:
    records, times = len(copies), export.sendings
    found.sent += records
    if export.acknowledged:
        found.acknowledged += records
        found.lost += copies.count(0)
    else:
        found.unanswered += records
    if times > 1:
        found.resent += records
        found.again += sum(min(number, times) - 1 for number in copies if number)
    found.doubled += sum(max(0, number - times) for number in copies)


def missing(exports: Iterable[Export], stored: Stored) -> list[tuple[int, int]]:
    """Client and sequence of what was acknowledged and is not there, for a message."""
    return [
        (export.client, sequence)
        for export in exports
        if export.acknowledged
        for sequence in export.good
        if (export.client, sequence) not in stored
    ]
