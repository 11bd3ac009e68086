"""Reads a submission as a bundle. The signature is verified before a byte of the payload is parsed.

A parsed bundle of 4 MiB takes up to 100 MiB of memory, and a submission may wait for the database. While it waits, only
the data to store and to compare is kept (`references.SubmittedBundle`).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from chassis.errors import JSON_TYPE, BadRequest, Issue, PayloadTooLarge, RateLimited, ServiceUnavailable
from chassis.http.body import read_body, require_media_type
from chassis.http.validation import MAX_EXPLAINED_BYTES, Issues, decode_json
from control.approvals.proofs.references import PAYLOAD_PATH, SubmittedBundle, summarize
from control.approvals.proofs.tables import IssuerKey, KeyStatus
from proto.proofs import dsse, reading
from proto.proofs.bundle import Issuer, ProofBundle, Statement
from proto.proofs.dsse import InvalidEnvelope
from proto.proofs.reading import KeyValidity, find_distrust, find_faults
from proto.proofs.semantics import LEDGER, Finding, Severity, check_payload, most_severe, within
from proto.rfc3339 import parse_rfc3339

T = TypeVar("T")

INVALID: Final = "The proof bundle is not valid."
# By media type of the body: the payload type of an unsigned body, None for an envelope.
MEDIA_TYPES: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        JSON_TYPE: dsse.BUNDLE_TYPE,
        dsse.BUNDLE_TYPE: dsse.BUNDLE_TYPE,
        dsse.STATEMENT_MEDIA_TYPE: dsse.STATEMENT_MEDIA_TYPE,
        dsse.ENVELOPE_TYPE: None,
    }
)
# A bundle of 4 MiB has some 60 000 objects and lists at most. But `annotations` may hold anything, and parsing a
# million empty lists takes a second.
MAX_CONTAINERS: Final = 100_000
MAX_RECEIVED_OF_PRINCIPAL: Final = 4 * reading.MAX_BYTES  # at once
MAX_RECEIVED: Final = 32 * reading.MAX_BYTES
_SMALL_BYTES: Final = 256 * 1_024  # reading takes some milliseconds; larger bodies are read outside the event loop
_CLOCK_DIFFERENCE: Final = timedelta(minutes=5)
_NO_KEY: Final = "None of the signatures was made with a key that the organization has registered."


class ReceivedBody(NamedTuple):
    """A body as received. `media_type`: one of MEDIA_TYPES."""

    raw: bytes
    media_type: str


class ParsedBundle(NamedTuple):
    """A bundle whose shape is right. `signer` None: the bundle is not signed. `statement`: the Statement around the
    bundle, if there is one.
    """

    bundle: ProofBundle
    statement: Statement | None
    signer: IssuerKey | None = None


class Intake:
    """Receives and reads submissions. Limits the bytes that are received at once, per principal and in total. Large
    bundles are read one at a time, because each takes tens of megabytes for a moment.
    """

    def __init__(self, body_timeout_s: float, body_min_rate: int) -> None:
        self._body_timeout_s = body_timeout_s
        self._body_min_rate = body_min_rate
        self._received: Counter[str] = Counter()  # bytes by principal
        self._large = asyncio.Semaphore(1)

    @asynccontextmanager
    async def receive(self, request: web.Request, principal_id: str) -> AsyncIterator[ReceivedBody]:
        """The body, for the time of a request. Raises UnsupportedMediaType, PayloadTooLarge, RateLimited,
        ServiceUnavailable, BadRequest.
        """
        media_type = require_media_type(request, MEDIA_TYPES)
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            self._received[principal_id] += size - held
            held = size
            if self._received[principal_id] > MAX_RECEIVED_OF_PRINCIPAL:
                raise RateLimited("Too many large proof bundles are submitted at once.", 1)
            if self._received.total() > MAX_RECEIVED:
                raise ServiceUnavailable("Too many large proof bundles are submitted at once. Retry later.")

        try:
            raw = await read_body(
                request, reading.MAX_BYTES, self._body_timeout_s, on_growth=grow, min_rate=self._body_min_rate
            )
            yield ReceivedBody(raw, media_type)
        finally:
            self._received[principal_id] -= held
            if not self._received[principal_id]:
                del self._received[principal_id]

    async def read(self, received: ReceivedBody, keys: Sequence[IssuerKey], now: datetime) -> SubmittedBundle:
        """The bundle, verified and checked. Raises BadRequest, with an issue for each fault, and PayloadTooLarge."""
        return await self._beside_the_loop(received, read_submission, received, keys, now)

    async def render(self, received: ReceivedBody, make: Callable[[ParsedBundle], object]) -> bytes:
        """The result of `make` for a stored bundle, as JSON."""
        return await self._beside_the_loop(received, lambda: msgspec.json.encode(make(reparse(received))))

    async def _beside_the_loop(self, received: ReceivedBody, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread. A small body is processed at once, because the hand-over would take longer."""
        if len(received.raw) <= _SMALL_BYTES:
            return work(*arguments)
        async with self._large:
            return await asyncio.to_thread(work, *arguments)


def read_submission(received: ReceivedBody, keys: Sequence[IssuerKey], now: datetime) -> SubmittedBundle:
    """The bundle, verified and checked. Raises BadRequest for a signature that does not count, a wrong shape, and
    duplicate JSON keys or claim ids. Raises PayloadTooLarge for more than MAX_CONTAINERS objects and lists.
    """
    parsed = _verify_and_parse(received, keys, now)
    place = "" if parsed.statement is None else LEDGER
    receipt = within(place, _check_receipt(parsed, now))
    contradictions = most_severe([*check_payload(parsed.statement or parsed.bundle), *receipt])
    return summarize(parsed.bundle, parsed.signer, contradictions, place)


def _verify_and_parse(received: ReceivedBody, keys: Sequence[IssuerKey], now: datetime) -> ParsedBundle:
    """Verify the signature and parse the payload. If several keys have signed, one key that counts is enough."""
    payload_type = MEDIA_TYPES[received.media_type]
    _require_few_containers(received.raw)
    if payload_type is not None:
        return _parse(received.raw, payload_type, "body", is_json=received.media_type == JSON_TYPE)
    try:
        envelope = dsse.parse(received.raw)
    except InvalidEnvelope as error:
        raise _refusal("body", str(error), "malformed") from error
    issues, parsed = Issues(), None
    usable_first = sorted(keys, key=lambda key: key.status_at(now) is not KeyStatus.ACTIVE)
    loaded = [(key.key_id, dsse.load_public_key(key.public_key.encode())) for key in usable_first]
    for at in dsse.find_signers(envelope, loaded):
        signer = usable_first[at]
        if parsed is None:
            _require_few_containers(envelope.payload)
            parsed = _parse(envelope.payload, envelope.payload_type, PAYLOAD_PATH)
        reason = find_distrust_at(signer, parsed.bundle.issuer, parsed.bundle.issued_at, now)
        if reason is None:
            return parsed._replace(signer=signer)
        issues.add("body.signatures", f"Not verified: {reason}", "not_verified")
    if parsed is None:
        issues.add("body.signatures", _NO_KEY, "not_verified")
    raise BadRequest(INVALID, list(issues))


def find_distrust_at(signer: IssuerKey, issuer: Issuer, issued_at: str, now: datetime) -> str | None:
    """Why the key does not count for a bundle, None if it counts. The key must be valid now, and must have been valid
    when the bundle was issued. The time of issue is the only time that an offline check knows.
    """
    validity = KeyValidity(signer.key_id, signer.issuer, signer.valid_from, signer.valid_until, signer.revoked_at)
    return find_distrust(validity, issuer, issued_at) or find_distrust(validity, issuer, issued_at, now)


def _check_receipt(parsed: ParsedBundle, now: datetime) -> Iterator[Finding]:
    """Findings that only the receiver can have."""
    issued = parse_rfc3339(parsed.bundle.issued_at)
    if issued is not None and issued > now + _CLOCK_DIFFERENCE:
        yield Finding(Severity.WARNING, "issuedAt", "Is later than the time at which the bundle was received.", "order")
    if parsed.signer is None and parsed.bundle.issuer.key_id is not None:
        yield Finding(Severity.WARNING, "issuer.keyId", "Names a key, but the bundle is not signed.", "unsupported")


def reparse(received: ReceivedBody) -> ParsedBundle:
    """Parse a stored bundle. Its signature, if it has one, was verified when the bundle was submitted."""
    payload, payload_type = received.raw, MEDIA_TYPES[received.media_type]
    if payload_type is None:
        envelope = dsse.parse(payload)
        payload, payload_type = envelope.payload, envelope.payload_type
    value = msgspec.json.decode(payload, type=reading.payload_shape(payload_type))
    return ParsedBundle(reading.bundle_of(value), value if isinstance(value, Statement) else None)


def _require_few_containers(raw: bytes) -> None:
    if raw.count(b"{") + raw.count(b"[") > MAX_CONTAINERS:
        raise PayloadTooLarge(f"The proof bundle has more than {MAX_CONTAINERS} objects and lists.")


def _parse(payload: bytes, payload_type: str, path: str, *, is_json: bool = False) -> ParsedBundle:
    """Parse a payload. `path`: the place of the payload in the request."""
    issues = Issues()
    value: Any = decode_json(reading.payload_shape(payload_type), payload, path, issues)
    if value is None and is_json and len(payload) <= MAX_EXPLAINED_BYTES and reading.is_envelope(payload):
        raise _refusal("body", f"Is a DSSE envelope: send it as {dsse.ENVELOPE_TYPE}.", "media_type")
    for fault in () if value is None else find_faults(value):
        issues.add(f"{path}{fault.path}", fault.message, fault.code)
    issues.raise_if_any(INVALID)
    return ParsedBundle(reading.bundle_of(value), value if isinstance(value, Statement) else None)


def _refusal(path: str, message: str, code: str) -> BadRequest:
    return BadRequest(INVALID, [Issue(path, message, code)])
