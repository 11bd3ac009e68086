"""Keys of issuers as the database has them, and what bundles refer to."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from proto.proofs.reading import KeyValidity

PROOF_ID_PATTERN: Final = "^prf_[0-9a-z]{26}$"
ISSUER_KEY_ID_PATTERN: Final = "^pik_[0-9a-z]{26}$"


class KeyAlgorithm(StrEnum):
    """What a key signs with."""

    ED25519 = "ED25519"
    ECDSA_P256 = "ECDSA_P256"


class KeyStatus(StrEnum):
    """Whether signatures of a key count at a time."""

    ACTIVE = "ACTIVE"
    NOT_YET_VALID = "NOT_YET_VALID"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key of an issuer. `issuer`: the `issuer.id` of the bundles that it signs."""

    id: str
    org_id: str
    issuer: str
    name: str
    key_id: str
    algorithm: KeyAlgorithm
    public_key: str
    valid_from: datetime
    valid_until: datetime | None
    revoked_at: datetime | None
    revocation_reason: str | None
    created_by: str | None
    created_at: datetime

    def status_at(self, now: datetime) -> KeyStatus:
        """What the key is worth at a time."""
        if self.revoked_at is not None:
            return KeyStatus.REVOKED
        if now < self.valid_from:
            return KeyStatus.NOT_YET_VALID
        is_over = self.valid_until is not None and now >= self.valid_until
        return KeyStatus.EXPIRED if is_over else KeyStatus.ACTIVE

    @property
    def validity(self) -> KeyValidity:
        """What decides whether a bundle that it has signed is believed."""
        return KeyValidity(self.key_id, self.issuer, self.valid_from, self.valid_until, self.revoked_at)


class LinkKind(StrEnum):
    """What a bundle speaks of besides its issue."""

    APPROVAL_REQUEST = "approval_request"
    TRACE = "trace"


class Link(NamedTuple):
    """Something that a bundle speaks of, by its id."""

    kind: LinkKind
    target: str
