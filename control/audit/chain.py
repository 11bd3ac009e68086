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

from control.http.field_types import Timestamp
from proto.identity import PrincipalKind

HASH_BYTES: Final = 32
GENESIS_HASH: Final = bytes(HASH_BYTES)
HASH_PATTERN: Final = r"^[0-9a-f]{64}$"

Hash = Annotated[str, Meta(pattern=HASH_PATTERN, description="SHA-256 in hexadecimal digits.")]


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change, as it is listed, exported and hashed."""

    org_id: str
    seq: Annotated[int, Meta(ge=1, description="1, 2, 3 and so on in each organization, without gaps.")]
    at: Timestamp
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


BreakKind = Literal["missing", "altered", "unlinked", "replaced", "cut", "headless"]


class ChainBreak(NamedTuple):
    """The first event at which a chain does not hold, and how.

    missing: there is a gap before it; altered: its hash is not that of its content; unlinked: it does not follow the
    one before it; replaced: it is sound, and another one than was noted; cut: events that were there are missing at the
    end; headless: nothing says where the end is.
    """

    seq: int
    kind: BreakKind


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and without spaces. Raises TypeError for a number that is no integer, whose text differs
    between writers.
    """
    _reject_floats(value)
    return msgspec.json.encode(value, order="sorted")


def hash_event(event: Event) -> bytes:
    """Of everything in the event but `hash`; 32 bytes."""
    hashed = {name: value for name, value in msgspec.to_builtins(event).items() if name != "hash"}
    return hashlib.sha256(canonical_json(hashed)).digest()


class ChainVerifier:
    """Takes the events of one chain in order, from its start; says where it breaks first. Holds nothing but its end.

    `noted`: hashes by `seq` that are known from elsewhere: the head, an export, a number on paper. A chain that was
    written anew as a whole holds in itself; only these tell. `seq`, `start`: the event before the first that comes.
    """

    def __init__(
        self, known_hashes: Mapping[int, bytes] = MappingProxyType({}), *, seq: int = 0, start: bytes = GENESIS_HASH
    ) -> None:
        self.seq = seq
        self.hash = start
        self._known_hashes = known_hashes
        self._first_break: ChainBreak | None = None

    def add(self, event: Event) -> None:
        """The next event; nothing is looked at behind a break."""
        if self._first_break is None:
            self._first_break = self._find_break(event)
            self.seq, self.hash = event.seq, bytes.fromhex(event.hash)

    def add_unreadable(self) -> None:
        """There is a next event, and it holds what none can."""
        self._first_break = self._first_break or ChainBreak(self.seq + 1, "altered")

    def end(self) -> ChainBreak | None:
        """After the last event: None when the chain holds."""
        if self._first_break is None and max(self._known_hashes, default=0) > self.seq:
            self._first_break = ChainBreak(self.seq + 1, "cut")
        return self._first_break

    def _find_break(self, event: Event) -> ChainBreak | None:
        if event.seq != self.seq + 1:
            return ChainBreak(event.seq, "missing")
        if not _has_valid_hash(event):
            return ChainBreak(event.seq, "altered")
        if event.prev_hash != self.hash.hex():
            return ChainBreak(event.seq, "unlinked")
        replaced = self._known_hashes.get(event.seq, bytes.fromhex(event.hash)).hex() != event.hash
        return ChainBreak(event.seq, "replaced") if replaced else None


def _has_valid_hash(event: Event) -> bool:
    try:
        return hash_event(event).hex() == event.hash
    except (TypeError, ValueError, OverflowError, RecursionError):  # what no event of ours holds: a fraction, say
        return False


def _reject_floats(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError("an audit event holds no fractions")
    if isinstance(value, Mapping):
        for each in value.values():
            _reject_floats(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _reject_floats(each)
