"""A submission as a bundle: its signature is verified before a byte of its payload is parsed."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiohttp import web

from chassis.errors import BadRequest, Issue, PayloadTooLarge, UnsupportedMediaType
from chassis.http.body import read_body
from chassis.http.operation import JSON_TYPE
from chassis.http.validation import MAX_EXPLAINED_BYTES, Issues, decode_json
from control.proofs.model import IssuerKey
from proto.proofs import dsse, reading
from proto.proofs.bundle import ProofBundle, Statement
from proto.proofs.dsse import Envelope, InvalidEnvelope, PublicKey
from proto.proofs.semantics import Finding, check, check_statement, most_severe, repeated_claim_ids
from proto.proofs.trust import find_distrust
from proto.proofs.unique_keys import RepeatedKey, require_unique_keys

INVALID: Final = "The proof bundle is not valid."
# By media type of the body: the payload type of what is not signed; None for an envelope.
MEDIA_TYPES: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        JSON_TYPE: dsse.BUNDLE_TYPE,
        dsse.BUNDLE_TYPE: dsse.BUNDLE_TYPE,
        dsse.STATEMENT_TYPE: dsse.STATEMENT_TYPE,
        dsse.ENVELOPE_TYPE: None,
    }
)
# A bundle of 4 MiB has some 60 000 objects and lists at most; what `annotations` may hold is arbitrary, and a million
# empty lists take the interpreter a second.
MAX_CONTAINERS: Final = 200_000
_SMALL_BYTES: Final = 256 * 1_024  # takes some milliseconds; larger ones are read beside the event loop
_FEW_ATTEMPTS: Final = 8  # to verify a signature
_NO_KEY: Final = "No signature is of a key that is registered at /orgs/{orgSlug}/proof-issuers."


class ReceivedBody(NamedTuple):
    """A body as received. `media_type`: one of MEDIA_TYPES."""

    raw: bytes
    media_type: str


class KnownKey(NamedTuple):
    """A key of an issuer, ready to verify with."""

    issuer_key: IssuerKey
    public_key: PublicKey


class ReadBundle(NamedTuple):
    """A bundle whose shape is right. `signer` None: it is not signed. `statement`: what is around it, if anything.
    `contradictions`: where the bundle contradicts itself, or the statement around it.
    """

    bundle: ProofBundle
    statement: Statement | None
    signer: IssuerKey | None
    contradictions: Sequence[Finding] = ()


class Intake:
    """Reads submissions, large ones one at a time: each may take a hundred megabytes for a moment."""

    def __init__(self, body_timeout_s: float) -> None:
        self._body_timeout_s = body_timeout_s
        self._large = asyncio.Semaphore(1)

    async def receive(self, request: web.Request) -> ReceivedBody:
        """The body. Raises UnsupportedMediaType, PayloadTooLarge, ServiceUnavailable, BadRequest."""
        if request.content_type not in MEDIA_TYPES:
            raise UnsupportedMediaType(f"The body must be {', '.join(MEDIA_TYPES)}.", close=True)
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("The body must not be compressed.", close=True)
        raw = await read_body(request, reading.MAX_BYTES, self._body_timeout_s)
        return ReceivedBody(raw, request.content_type)

    async def read(self, submission: ReceivedBody, keys: Sequence[KnownKey], now: datetime) -> ReadBundle:
        """Raises BadRequest, with an issue for each fault."""
        if len(submission.raw) <= _SMALL_BYTES and len(keys) <= _FEW_ATTEMPTS:
            return read_submission(submission, keys, now)
        async with self._large:
            return await asyncio.to_thread(read_submission, submission, keys, now)


def load_keys(keys: Sequence[IssuerKey]) -> list[KnownKey]:
    """Keys that were checked when they were stored."""
    return [KnownKey(one, dsse.load_public_key(one.public_key.encode())) for one in keys]


def read_submission(submission: ReceivedBody, keys: Sequence[KnownKey], now: datetime) -> ReadBundle:
    """The bundle, checked. Raises BadRequest for a signature that does not count, for a wrong shape, for keys of JSON
    and ids of claims that are there twice; PayloadTooLarge for more than MAX_CONTAINERS objects and lists.
    """
    read = _verify_and_parse(submission, keys, now)
    around = [] if read.statement is None else check_statement(read.statement)
    return read._replace(contradictions=most_severe([*around, *check(read.bundle)]))


def _verify_and_parse(submission: ReceivedBody, keys: Sequence[KnownKey], now: datetime) -> ReadBundle:
    payload_type = MEDIA_TYPES[submission.media_type]
    if payload_type is not None:
        return _parse(submission.raw, payload_type, None, is_json=submission.media_type == JSON_TYPE)
    try:
        envelope = dsse.parse(submission.raw)
    except InvalidEnvelope as error:
        raise _refusal("body", str(error), "malformed") from error
    signer = _find_signer(envelope, keys)
    read = _parse(envelope.payload, envelope.payload_type, signer)
    _require_trust(signer, read.bundle, now)
    return read


def reparse(submission: ReceivedBody) -> ReadBundle:
    """A stored bundle. Its signature, if it has one, was verified when it was handed in."""
    payload, payload_type = submission.raw, MEDIA_TYPES[submission.media_type]
    if payload_type is None:
        envelope = dsse.parse(payload)
        payload, payload_type = envelope.payload, envelope.payload_type
    return _parse(payload, payload_type, None)


def _find_signer(envelope: Envelope, keys: Sequence[KnownKey]) -> IssuerKey:
    by_id = {known.issuer_key.key_id: known.issuer_key for known in keys}
    found = dsse.find_signer(envelope, [(known.issuer_key.key_id, known.public_key) for known in keys])
    if found is None:
        raise _refusal("body.signatures", _NO_KEY, "not_verified")
    return by_id[found]


def _require_trust(signer: IssuerKey, bundle: ProofBundle, now: datetime) -> None:
    """The key counts now, and did when the bundle was issued: offline, only that time is known."""
    for at in (None, now):
        reason = find_distrust(signer.validity, bundle, at)
        if reason is not None:
            raise _refusal("body.signatures", f"Not verified: {reason}", "not_verified")


def _parse(payload: bytes, payload_type: str, signer: IssuerKey | None, *, is_json: bool = False) -> ReadBundle:
    if payload.count(b"{") + payload.count(b"[") > MAX_CONTAINERS:
        raise PayloadTooLarge(f"The proof bundle has more than {MAX_CONTAINERS} objects and lists.")
    issues = Issues()
    value: Any = decode_json(reading.payload_shape(payload_type), payload, "body", issues)
    if value is None and is_json and len(payload) <= MAX_EXPLAINED_BYTES and reading.is_envelope(payload):
        raise _refusal("body", f"Is a DSSE envelope: send it as {dsse.ENVELOPE_TYPE}.", "media_type")
    issues.raise_if_any(INVALID)
    try:
        require_unique_keys(payload, value)
    except RepeatedKey as error:
        issues.add("body", str(error), "repeated")
    bundle = reading.bundle_of(value)
    for at in repeated_claim_ids(bundle):
        issues.add(f"body.claims[{at}].claimId", "An earlier claim has this id.", "repeated")
    issues.raise_if_any(INVALID)
    return ReadBundle(bundle, value if isinstance(value, Statement) else None, signer)


def _refusal(path: str, message: str, code: str) -> BadRequest:
    return BadRequest(INVALID, [Issue(path, message, code)])
