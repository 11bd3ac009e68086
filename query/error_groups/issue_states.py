"""Which issue an error belongs to, from the relational database."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import UNSET, UnsetType

from chassis.db.database import Database, DatabaseUnavailable
from chassis.issues import IssueState, read_states
from query.error_groups.schemas import ErrorIssue

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_PER_MICRO: Final = 1_000


class IssueStates:
    """The issues of fingerprints; `clock` returns nanoseconds since 1970."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    async def read(self, project_id: int, fingerprints: Sequence[bytes]) -> Mapping[bytes, IssueState] | None:
        """By fingerprint; None while the database is unavailable: errors are shown without their issues then."""
        if not fingerprints:
            return {}
        now = _EPOCH + timedelta(microseconds=self._clock() // _NANOS_PER_MICRO)
        try:
            async with self._database.read() as connection:
                return await read_states(connection, project_id, fingerprints, now)
        except DatabaseUnavailable:
            return None


def error_issue(states: Mapping[bytes, IssueState] | None, fingerprint: bytes) -> ErrorIssue | UnsetType | None:
    """The field `issue` of an error."""
    if states is None:
        return UNSET
    state = states.get(fingerprint)
    return None if state is None else ErrorIssue(state.id, state.short_id, state.status)
