"""The chain of an organization's audit events, as pure functions: what is hashed, and whether a chain holds.

The hash of an event is the SHA-256 of its JSON without `hash`: keys sorted, no spaces, text as UTF-8. So a line of an
export can be checked with other tools: `jq -cjS 'del(.hash)' | sha256sum`. `prevHash` of the first event is all zeros.
"""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from control.names import Moment
from proto.identity import PrincipalKind

HASH_BYTES: Final = 32
START: Final = bytes(HASH_BYTES)
HASH_PATTERN: Final = r"^[0-9a-f]{64}$"

Hash = Annotated[str, Meta(pattern=HASH_PATTERN, description="SHA-256 in hexadecimal digits.")]


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change, as it is listed, exported and hashed."""

    org_id: str
    seq: Annotated[int, Meta(ge=1, description="1, 2, 3 and so on in each organization, without gaps.")]
    at: Moment
    actor_principal_id: Annotated[str | None, Meta(description="Null: the system itself, or somebody not signed in.")]
    actor_kind: PrincipalKind | None
    on_behalf_of_principal_id: str | None
    act_chain: Annotated[list[str], Meta(description="Principals that acted for one another, innermost last.")]
    token_id: str | None
    action: Annotated[str, Meta(description="What was done: `noun.verb`.")]
    object_id: Annotated[str, Meta(description="To what.")]
    data: Annotated[dict[str, Any], Meta(description="What more there is to tell, by action. Never a secret.")]
    request_id: Annotated[str, Meta(description="Of the request that did it.")]
    prev_hash: Hash
    hash: Hash


Fault = Literal["missing", "altered", "unlinked", "replaced", "cut", "headless"]


class Break(NamedTuple):
    """The first event at which a chain does not hold, and how.

    missing: there is a gap before it; altered: its hash is not that of its content; unlinked: it does not follow the
    one before it; replaced: it is sound, and another one than was noted; cut: events that were there are missing at the
    end; headless: nothing says where the end is.
    """

    seq: int
    fault: Fault


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and without spaces. Raises TypeError for a number that is no integer, whose text differs
    between writers.
    """
    _refuse_floats(value)
    return msgspec.json.encode(value, order="sorted")


def hash_of(event: Event) -> bytes:
    """Of everything in the event but `hash`; 32 bytes."""
    hashed = {name: value for name, value in msgspec.to_builtins(event).items() if name != "hash"}
    return hashlib.sha256(canonical(hashed)).digest()


class Verifier:
    """Takes the events of one chain in order, from its start; says where it breaks first. Holds nothing but its end.

    `noted`: hashes by `seq` that are known from elsewhere: the head, an export, a number on paper. A chain that was
    written anew as a whole holds in itself; only these tell. `seq`, `start`: the event before the first that comes.
    """

    def __init__(
        self, noted: Mapping[int, bytes] = MappingProxyType({}), *, seq: int = 0, start: bytes = START
    ) -> None:
        self.seq = seq
        self.hash = start
        self._noted = noted
        self._broken: Break | None = None

    def add(self, event: Event) -> None:
        """The next event; nothing is looked at behind a break."""
        if self._broken is None:
            self._broken = self._fault(event)
            self.seq, self.hash = event.seq, bytes.fromhex(event.hash)

    def add_unreadable(self) -> None:
        """There is a next event, and it holds what none can."""
        self._broken = self._broken or Break(self.seq + 1, "altered")

    def end(self) -> Break | None:
        """After the last event: None when the chain holds."""
        if self._broken is None and max(self._noted, default=0) > self.seq:
            self._broken = Break(self.seq + 1, "cut")
        return self._broken

    def _fault(self, event: Event) -> Break | None:
        if event.seq != self.seq + 1:
            return Break(event.seq, "missing")
        if not _is_sound(event):
            return Break(event.seq, "altered")
        if event.prev_hash != self.hash.hex():
            return Break(event.seq, "unlinked")
        replaced = self._noted.get(event.seq, bytes.fromhex(event.hash)).hex() != event.hash
        return Break(event.seq, "replaced") if replaced else None


def _is_sound(event: Event) -> bool:
    try:
        return hash_of(event).hex() == event.hash
    except (TypeError, ValueError, OverflowError, RecursionError):  # what no event of ours holds: a fraction, say
        return False


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError("an audit event holds no fractions")
    if isinstance(value, Mapping):
        for each in value.values():
            _refuse_floats(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _refuse_floats(each)
