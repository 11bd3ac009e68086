"""`/orgs/{orgSlug}/proof-issuers`: the public keys that proof bundles are verified with."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, declared_routes, route
from chassis.http.operation import Body, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route
from control.approvals.proofs import issuer_repository
from control.approvals.proofs.model import IssuerKey, KeyAlgorithm
from control.approvals.proofs.schemas import (
    IssuerKeyBody,
    IssuerKeyChange,
    IssuerKeyList,
    IssuerKeyRevocation,
    NewIssuerKey,
    issuer_key_body,
)
from control.http.context import HandlerContext, path_id
from control.http.time_input import parse_time
from control.routing.arguments import Transaction, begin, control_arguments
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.dsse import InvalidKey, PublicKey

_EXAMPLE: Final = {
    "issuer": "https://ci.example.com",
    "name": "Shop CI",
    "publicKey": "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
}
TAG: Final = Tag("proof-issuers", "Issuers of proof bundles: the public keys that their signatures are verified with.")
PATH: Final = "/orgs/{orgSlug}/proof-issuers"
ONE: Final = PATH + "/{issuerKeyId}"
NEW: Final = Body(json_content(NewIssuerKey), example=_EXAMPLE)
CHANGE: Final = Body(json_content(IssuerKeyChange), example={"validUntil": "2027-01-01T00:00:00Z"})
_READ: Final = bearer(Scope.PROOFS_READ)
_WRITE: Final = bearer(Scope.KEYS_WRITE)


@dataclass(frozen=True, slots=True)
class ProofIssuers:
    """Handlers of issuer keys, and their dependencies. Who reads proofs may read the keys. Changing them needs the
    scope of keys, which administrators have: a token of a CI job that hands in bundles must not decide whose bundles
    count.
    """

    context: HandlerContext
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context, {IssuerKey: Argument(self._find)}))

    @route("GET", PATH, _READ)
    async def list_proof_issuers(self, caller: AuthorizationContext, connection: AsyncConnection) -> IssuerKeyList:
        """List the keys, oldest first, also those that are expired or revoked."""
        found = await issuer_repository.list_keys(connection, caller.org_id)
        return IssuerKeyList([issuer_key_body(key, self.now()) for key in found])

    @route("POST", PATH, _WRITE, status=201, body=NEW, errors=(409,))
    async def create_proof_issuer(self, request: web.Request, caller: AuthorizationContext) -> IssuerKeyBody:
        """Register a public key.

        Bundles that it has signed are verified with it if their `issuer.id` is `issuer`, while the key is valid. To
        rotate keys, register the next one before the validity of the last one ends. 409 for a
        key that is there, and at the maximum number of keys.
        """
        issues, now = Issues(), self.now()
        body = await self.context.read_body(request, NewIssuerKey, issues)
        key = _new_key(body, caller, now, issues)
        async with begin(self.context, request) as transaction:
            await issuer_repository.create(transaction.connection, key, now)
            await _record(transaction, "proof_issuer.create", key)
        return issuer_key_body(key, now)

    @route("GET", ONE, _READ)
    async def show_proof_issuer(self, known: IssuerKey) -> IssuerKeyBody:
        """Show a key."""
        return issuer_key_body(known, self.now())

    @route("PATCH", ONE, _WRITE, body=CHANGE, errors=(409,))
    async def change_proof_issuer(self, known: IssuerKey, request: web.Request) -> IssuerKeyBody:
        """Change the name of a key, or when its validity ends.

        Bundles that were verified with it stay verified. 409 for a revoked key.
        """
        issues = Issues()
        body = await self.context.read_body(request, IssuerKeyChange, issues)
        until = None if body.valid_until is UNSET else parse_time(body.valid_until, "body.validUntil", issues)
        issues.raise_if_any("The request body is not valid.")
        async with begin(self.context, request) as transaction:
            known = await _load(transaction.connection, known.org_id, known.id)
            until = known.valid_until if body.valid_until is UNSET else until
            _check_order(known.valid_from, until, issues)
            issues.raise_if_any("The request body is not valid.")
            name = known.name if body.name is UNSET else body.name
            await issuer_repository.change(transaction.connection, known, name=name, valid_until=until)
            changed = await _load(transaction.connection, known.org_id, known.id)
            await _record(transaction, "proof_issuer.change", changed)
        return issuer_key_body(changed, self.now())

    @route("POST", ONE + "/revoke", _WRITE, errors=(409,), example={"reason": "The key was in a log."})
    async def revoke_proof_issuer(
        self, known: IssuerKey, body: IssuerKeyRevocation, transaction: Transaction
    ) -> IssuerKeyBody:
        """Revoke a key, for ever.

        No further bundle is verified with it. Those that were keep their signature, which says that its key is revoked:
        whoever has stolen it could have signed them. 409 for a revoked key.
        """
        now = self.now()
        known = await _load(transaction.connection, known.org_id, known.id)
        await issuer_repository.revoke(transaction.connection, known, body.reason, now)
        revoked = await _load(transaction.connection, known.org_id, known.id)
        await _record(transaction, "proof_issuer.revoke", revoked)
        return issuer_key_body(revoked, now)

    @route("DELETE", ONE, _WRITE, errors=(409,))
    async def delete_proof_issuer(self, known: IssuerKey, transaction: Transaction) -> None:
        """Delete a key that no bundle was verified with. 409 for one that was used, or is revoked."""
        known = await _load(transaction.connection, known.org_id, known.id)
        await issuer_repository.delete(transaction.connection, known)
        await _record(transaction, "proof_issuer.delete", known)

    async def _find(self, request: web.Request, _stack: AsyncExitStack) -> IssuerKey:
        """The key in the path: 404 comes before 415. Raises NotFound."""
        async with self.context.database.read() as connection:
            return await _load(connection, authorization_context(request).org_id, path_id(request, "issuerKeyId"))


def _new_key(body: NewIssuerKey, caller: AuthorizationContext, now: datetime, issues: Issues) -> IssuerKey:
    """Raises BadRequest."""
    public_key = _load_public_key(body.public_key, issues)
    valid_from = parse_time(body.valid_from, "body.validFrom", issues) or now
    valid_until = parse_time(body.valid_until, "body.validUntil", issues)
    _check_order(valid_from, valid_until, issues)
    issues.raise_if_any("The request body is not valid.")
    if public_key is None:
        raise TypeError("the key has no issues, but was not loaded")
    return IssuerKey(
        id=new_id("pik"),
        org_id=caller.org_id,
        issuer=body.issuer,
        name=body.name,
        key_id=body.key_id or dsse.default_key_id(public_key),
        algorithm=KeyAlgorithm.ED25519 if isinstance(public_key, Ed25519PublicKey) else KeyAlgorithm.ECDSA_P256,
        public_key=dsse.public_pem(public_key),
        valid_from=valid_from,
        valid_until=valid_until,
        revoked_at=None,
        revocation_reason=None,
        created_by=caller.principal_id,
        created_at=now,
    )


def _load_public_key(pem: str, issues: Issues) -> PublicKey | None:
    try:
        return dsse.load_public_key(pem.encode())
    except InvalidKey as error:
        issues.add("body.publicKey", str(error), "format")
        return None


def _check_order(valid_from: datetime, valid_until: datetime | None, issues: Issues) -> None:
    if valid_until is not None and valid_until <= valid_from:
        issues.add("body.validUntil", "Must be later than validFrom.", "range")


async def _load(connection: AsyncConnection, org_id: str, key_id: str) -> IssuerKey:
    """Raises NotFound."""
    found = await issuer_repository.find(connection, org_id, key_id)
    if found is None:
        raise NotFound
    return found


async def _record(transaction: Transaction, action: str, key: IssuerKey) -> None:
    data = {
        "issuer": key.issuer,
        "name": key.name,
        "keyId": key.key_id,
        "validFrom": format_time(key.valid_from),
        "validUntil": None if key.valid_until is None else format_time(key.valid_until),
        "reason": key.revocation_reason,
    }
    await transaction.record(action, key.id, data)
