"""Whether a bundle is believed whose signature a key has made: the key's issuer, its validity, its revocation."""

from datetime import datetime
from typing import NamedTuple

from proto.proofs.bundle import Issuer
from proto.rfc3339 import parse_rfc3339


class KeyValidity(NamedTuple):
    """What is published of a key besides the key itself. `issuer`: the `issuer.id` that bundles of this key have; None:
    any. `valid_from` is inclusive, `valid_until` exclusive; None: unlimited. `is_named`: whether bundles name the key
    by this id, which nobody knows of a key alone.
    """

    key_id: str
    issuer: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    revoked_at: datetime | None = None
    is_named: bool = True


def find_distrust(key: KeyValidity, issuer: Issuer, issued_at: str, at: datetime | None = None) -> str | None:
    """Why a bundle is not believed although the key has signed it; None: it is. `issuer`, `issued_at`: of the bundle.
    `at`: when the key must have been valid; by default when the bundle was issued. A revoked key may have signed with
    any date, so it never counts.
    """
    if key.revoked_at is not None:
        return f"the key {key.key_id} was revoked at {_text(key.revoked_at)}."
    if key.issuer is not None and key.issuer != issuer.id:
        return f"the key {key.key_id} is of the issuer {key.issuer}, not of {issuer.id}."
    if key.is_named and issuer.key_id not in (None, key.key_id):
        return f"the bundle names the key {issuer.key_id}, not {key.key_id}."
    moment = at or parse_rfc3339(issued_at)
    if moment is None:
        return f"{issued_at} is not a time of the calendar."
    is_early = key.valid_from is not None and moment < key.valid_from
    if is_early or (key.valid_until is not None and moment >= key.valid_until):
        begin = "" if key.valid_from is None else f" from {_text(key.valid_from)}"
        end = "" if key.valid_until is None else f" until {_text(key.valid_until)}"
        return f"the key {key.key_id} is valid{begin}{end}, not at {_text(moment)}."
    return None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
