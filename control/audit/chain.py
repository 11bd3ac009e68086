"""The hash chain of an organization's audit events, as pure functions: what is hashed, and whether a chain is intact.

The hash of an event is the SHA-256 of its JSON without `hash`: sorted keys, no spaces, text as UTF-8. So other tools
can verify a line of an export: `jq -cjS 'del(.hash)' | sha256sum`. `prevHash` of the first event is all zeros.

The events of a deleted organization lose their content and keep their hashes, so the links stay verifiable. The salt is
erased with the content, so that a guess of the content cannot be tested against the hash. The last event of the chain,
the seal, contains a digest of the remaining fields (`remainder_line`).
"""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from control.audit.tables import ERASED
from control.http.field_types import Timestamp
from proto.identity import PrincipalKind

HASH_BYTES: Final = 32
GENESIS_HASH: Final = bytes(HASH_BYTES)
HASH_PATTERN: Final = r"^[0-9a-f]{64}$"
SEAL_ACTION: Final = "organization.erase"

Hash = Annotated[str, Meta(pattern=HASH_PATTERN, description="SHA-256, in hexadecimal.")]


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change, as it is listed, exported and hashed."""

    org_id: str
    seq: Annotated[int, Meta(ge=1, description="Sequence number in the organization, from 1, without gaps.")]
    at: Timestamp
    actor_principal_id: Annotated[
        str | None, Meta(description="Null if the system or an unauthenticated caller made the change.")
    ]
    actor_kind: PrincipalKind | None
    on_behalf_of_principal_id: str | None
    act_chain: Annotated[list[str], Meta(description="Delegation chain (RFC 8693), the acting principal first.")]
    token_id: str | None
    action: Annotated[str, Meta(description="`noun.verb`, such as `key.create`.")]
    object_id: Annotated[str, Meta(description="Id of the changed resource.")]
    data: Annotated[dict[str, Any], Meta(description="Details, which depend on the action. Never contains secrets.")]
    request_id: Annotated[
        str, Meta(description="Id of the request that made the change, `(command)` for a CLI command.")
    ]
    prev_hash: Hash
    hash: Hash
    salt: Annotated[
        str | msgspec.UnsetType,
        Meta(description="Random bytes, in hexadecimal. Missing in events of early releases, which had no salts."),
    ] = msgspec.UNSET


class ErasedEvent(Event, frozen=True, kw_only=True, rename="camel"):
    """An event of a deleted organization: `data`, the salt, and texts that a user chose are erased."""


BreakKind = Literal["missing", "altered", "unlinked", "replaced", "cut", "headless", "unsealed"]


class ChainBreak(NamedTuple):
    """The first event at which a chain is broken, and how.

    missing: there is a gap before the event; altered: its hash does not match its content, or the event is erased and
    the seal does not match the rest of it; unsealed: the event is erased and no seal follows; unlinked: the event does
    not continue the previous event; replaced: the event is valid, but differs from a known hash; cut: events are
    missing at the end; headless: the head, which records the last event, is missing.
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
    """The hash of all fields of the event except `hash`: 32 bytes."""
    hashed = {name: value for name, value in msgspec.to_builtins(event).items() if name != "hash"}
    return hashlib.sha256(canonical_json(hashed)).digest()


def remainder_line(event: ErasedEvent) -> bytes:
    """The remaining fields of an erased event, as the seal's digest covers them: JSON with sorted keys, a line feed."""
    return canonical_json(msgspec.to_builtins(event)) + b"\n"


def seal_data(events: int, digest: bytes) -> dict[str, Any]:
    """The data of the seal: how many events are erased, from the first on, and the SHA-256 of their remainder lines."""
    return {"events": events, "sha256": digest.hex()}


class ChainVerifier:
    """Takes the events of one chain in order from its start, and reports the first break. Keeps only the last event.

    `known_hashes`: hashes by `seq` from another source, such as the head, an export or a note on paper. A chain that
    was rewritten completely is consistent in itself. Only known hashes reveal the change. `seq`, `start`: number and
    hash before the first event.
    """

    def __init__(
        self, known_hashes: Mapping[int, bytes] = MappingProxyType({}), *, seq: int = 0, start: bytes = GENESIS_HASH
    ) -> None:
        self.seq = seq
        self.hash = start
        self._known_hashes = known_hashes
        self._first_break: ChainBreak | None = None
        self._first_erased: int | None = None  # until a seal covers it
        self._erased = 0
        self._remainder = hashlib.sha256()

    def add(self, event: Event) -> None:
        """Check the next event. Events after a break are not checked."""
        if self._first_break is None:
            self._first_break = self._find_break(event)
            self.seq, self.hash = event.seq, bytes.fromhex(event.hash)

    def add_unreadable(self) -> None:
        """Report the next event, whose row has values that no event can have, as altered."""
        self._first_break = self._first_break or ChainBreak(self.seq + 1, "altered")

    def end(self) -> ChainBreak | None:
        """Return the break, None if the chain is intact. Call this after the last event."""
        if self._first_break is None and max(self._known_hashes, default=0) > self.seq:
            self._first_break = ChainBreak(self.seq + 1, "cut")
        if self._first_break is None and self._first_erased is not None:
            self._first_break = ChainBreak(self._first_erased, "unsealed")
        return self._first_break

    def _find_break(self, event: Event) -> ChainBreak | None:
        if event.seq != self.seq + 1:
            return ChainBreak(event.seq, "missing")
        if isinstance(event, ErasedEvent):
            if event.data or event.request_id != ERASED or event.salt is not msgspec.UNSET:
                return ChainBreak(event.seq, "altered")
            self._add_erased(event)
        elif not _has_valid_hash(event):
            return ChainBreak(event.seq, "altered")
        elif self._first_erased is not None and event.action == SEAL_ACTION:
            if event.data != seal_data(self._erased, self._remainder.digest()):
                return ChainBreak(self._first_erased, "altered")
            self._first_erased = None
        if event.prev_hash != self.hash.hex():
            return ChainBreak(event.seq, "unlinked")
        replaced = self._known_hashes.get(event.seq, bytes.fromhex(event.hash)).hex() != event.hash
        return ChainBreak(event.seq, "replaced") if replaced else None

    def _add_erased(self, event: ErasedEvent) -> None:
        if self._first_erased is None:
            self._first_erased = event.seq
        self._erased += 1
        self._remainder.update(remainder_line(event))


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
