"""The hash chain of an organization's audit events, as pure functions: what is hashed, and whether a chain is intact.

The hash of an event is the SHA-256 of its JSON without `hash`: sorted keys, no spaces, text as UTF-8. So other tools
can verify a line of an export: `jq -cjS 'del(.hash)' | sha256sum`. `prevHash` of the first event is all zeros.
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

Hash = Annotated[str, Meta(pattern=HASH_PATTERN, description="SHA-256, in hexadecimal.")]


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change, as it is listed, exported and hashed."""

    org_id: str
    seq: Annotated[int, Meta(ge=1, description="Sequence number in the organization, from 1, without gaps.")]
    at: Timestamp
    actor_principal_id: Annotated[str | None, Meta(description="Null: the system, or an unauthenticated caller.")]
    actor_kind: PrincipalKind | None
    on_behalf_of_principal_id: str | None
    act_chain: Annotated[list[str], Meta(description="Delegation chain (RFC 8693), the acting principal first.")]
    token_id: str | None
    action: Annotated[str, Meta(description="`noun.verb`, such as `key.create`.")]
    object_id: Annotated[str, Meta(description="Id of the changed resource.")]
    data: Annotated[dict[str, Any], Meta(description="Details, depending on the action. Never contains secrets.")]
    request_id: Annotated[
        str, Meta(description="Id of the request that made the change; `(command)` for a CLI command.")
    ]
    prev_hash: Hash
    hash: Hash


BreakKind = Literal["missing", "altered", "unlinked", "replaced", "cut", "headless"]


class ChainBreak(NamedTuple):
    """The first event at which a chain is broken, and how.

    missing: there is a gap before it; altered: its hash does not match its content; unlinked: it does not continue the
    previous event; replaced: it is valid, but differs from a known hash; cut: events are missing at the end; headless:
    the head, which records the last event, is missing.
    """

    seq: int
    kind: BreakKind


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and without spaces. Raises TypeError for a number that is not an integer, since its text
    differs between encoders.
    """
    _reject_floats(value)
    return msgspec.json.encode(value, order="sorted")


def hash_event(event: Event) -> bytes:
    """The hash of everything in the event except `hash`; 32 bytes."""
    hashed = {name: value for name, value in msgspec.to_builtins(event).items() if name != "hash"}
    return hashlib.sha256(canonical_json(hashed)).digest()


class ChainVerifier:
    """Takes the events of one chain in order from its start, and reports the first break. Keeps only the chain's end.

    `known_hashes`: hashes by `seq` from elsewhere: the head, an export, a note on paper. A chain that was rewritten
    completely is consistent in itself; only these reveal it. `seq`, `start`: number and hash before the first event.
    """

    def __init__(
        self, known_hashes: Mapping[int, bytes] = MappingProxyType({}), *, seq: int = 0, start: bytes = GENESIS_HASH
    ) -> None:
        self.seq = seq
        self.hash = start
        self._known_hashes = known_hashes
        self._first_break: ChainBreak | None = None

    def add(self, event: Event) -> None:
        """Check the next event; events after a break are not checked."""
        if self._first_break is None:
            self._first_break = self._find_break(event)
            self.seq, self.hash = event.seq, bytes.fromhex(event.hash)

    def add_unreadable(self) -> None:
        """The next event exists, but its row has values that no event can have."""
        self._first_break = self._first_break or ChainBreak(self.seq + 1, "altered")

    def end(self) -> ChainBreak | None:
        """Call after the last event. The break, None if the chain is intact."""
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
    except (TypeError, ValueError, OverflowError, RecursionError):  # values that no valid event has, such as a fraction
        return False


def _reject_floats(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError("audit events cannot contain floating-point numbers")
    if isinstance(value, Mapping):
        for each in value.values():
            _reject_floats(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _reject_floats(each)
