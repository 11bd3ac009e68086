"""Read a bundle or a verified payload, find its errors, and check whether its key is trusted."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from proto.json_keys import require_unique_keys
from proto.proofs import dsse
from proto.proofs.bundle import Issuer, ProofBundle, Statement
from proto.proofs.semantics import repeated_claim_ids
from proto.rfc3339 import parse_rfc3339

MAX_BYTES: Final = 4 * 2**20  # of a bundle, with its envelope if it is signed


def payload_shape(payload_type: str) -> type[ProofBundle] | type[Statement]:
    """The type of a payload."""
    return ProofBundle if payload_type == dsse.BUNDLE_TYPE else Statement


def bundle_of(value: ProofBundle | Statement) -> ProofBundle:
    """The bundle itself, or the bundle in the statement."""
    return value.predicate.ledger if isinstance(value, Statement) else value


def read_payload(payload: bytes, payload_type: str) -> ProofBundle:
    """The bundle of a verified payload, or of an unsigned body. Raises msgspec.DecodeError and RepeatedKey."""
    value: ProofBundle | Statement = msgspec.json.decode(payload, type=payload_shape(payload_type))
    require_unique_keys(payload, value)
    return bundle_of(value)


def is_envelope(raw: bytes) -> bool:
    """Whether a file looks like an envelope, for programs that know no media type."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return "payloadType" in fields and "signatures" in fields


MAX_ANNOTATION_DEPTH: Final = (
    32  # of lists and objects; whether deeper nesting can be read depends on the reader's stack
)


class Fault(NamedTuple):
    """An error. `path` has the form `.claims[0].claimId` and is empty for the whole document. `code` is a word for
    programs.
    """

    path: str
    message: str
    code: str


def find_faults(value: ProofBundle | Statement) -> Iterator[Fault]:
    """Find repeated ids, and annotations that are nested too deeply."""
    place = ".predicate.ledger" if isinstance(value, Statement) else ""
    for at in repeated_claim_ids(bundle_of(value)):
        yield Fault(f"{place}.claims[{at}].claimId", "An earlier claim has this id.", "repeated")
    if isinstance(value, Statement):
        for at, descriptor in enumerate(value.subject):
            if descriptor.annotations is not UNSET and _is_deeper(descriptor.annotations, MAX_ANNOTATION_DEPTH):
                message = f"Must be nested at most {MAX_ANNOTATION_DEPTH} levels deep."
                yield Fault(f".subject[{at}].annotations", message, "too_deep")


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in _contents(each) if isinstance(inner, (dict, list))]
    return bool(level)


def _contents(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


class KeyValidity(NamedTuple):
    """The published data of a key besides the key itself. `issuer`: the `issuer.id` that bundles of this key must have
    (None: any). `valid_from` is inclusive and `valid_until` exclusive (None: unlimited). `is_named`: whether bundles
    name the key by this id. The id of a bare key is not known.
    """

    key_id: str
    issuer: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    revoked_at: datetime | None = None
    is_named: bool = True


def find_distrust(key: KeyValidity, issuer: Issuer, issued_at: str, at: datetime | None = None) -> str | None:
    """The reason why a bundle is not trusted although the key has signed it, or None if it is trusted. `issuer` and
    `issued_at` are fields of the bundle. `at` is the time at which the key must have been valid, by default the time at
    which the bundle was issued. A revoked key is never trusted, because it may have signed with any date.
    """
    if key.revoked_at is not None:
        return f"the key {key.key_id} was revoked at {_text(key.revoked_at)}."
    if key.issuer is not None and key.issuer != issuer.id:
        return f"the key {key.key_id} belongs to the issuer {key.issuer}, not to {issuer.id}."
    if key.is_named and issuer.key_id not in (None, key.key_id):
        return f"the bundle names the key {issuer.key_id}, not {key.key_id}."
    moment = at or parse_rfc3339(issued_at)
    if moment is None:
        return f"{issued_at} is not a valid time."
    is_early = key.valid_from is not None and moment < key.valid_from
    if is_early or (key.valid_until is not None and moment >= key.valid_until):
        begin = "" if key.valid_from is None else f" from {_text(key.valid_from)}"
        end = "" if key.valid_until is None else f" until {_text(key.valid_until)}"
        return f"the key {key.key_id} is valid{begin}{end}, not at {_text(moment)}."
    return None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
