"""`/orgs/{orgSlug}/proof-issuers`: the public keys that proof bundles are verified with."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import sqlalchemy as sa
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import new_id
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Arguments, route
from chassis.http.route import Body, Tag, json_content
from chassis.http.validation import Issues
from control.approvals.proofs.bodies import (
    IssuerKeyBody,
    IssuerKeyChange,
    IssuerKeyList,
    IssuerKeyRevocation,
    NewIssuerKey,
    issuer_key_body,
)
from control.approvals.proofs.tables import IssuerKey, KeyAlgorithm, KeyStatus, proof_bundles, proof_issuer_keys
from control.http.context import path_id
from control.http.field_types import parse_time
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.dsse import InvalidKey, PublicKey

MAX_ACTIVE_KEYS: Final = 50  # of an organization, neither revoked nor expired
MAX_KEYS: Final = 1_000
_ENDED: Final = frozenset({KeyStatus.EXPIRED, KeyStatus.REVOKED})


async def create_key(connection: AsyncConnection, key: IssuerKey, now: datetime) -> None:
    """Store a new key. Raises Conflict if the organization has MAX_ACTIVE_KEYS or MAX_KEYS keys, or has this key."""
    known = await list_keys(connection, key.org_id)
    if sum(one.status_at(now) not in _ENDED for one in known) >= MAX_ACTIVE_KEYS:
        raise Conflict(
            f"The organization has {MAX_ACTIVE_KEYS} valid issuer keys, the maximum. End the validity of one first."
        )
    if len(known) >= MAX_KEYS:
        raise Conflict(f"The organization has {MAX_KEYS} issuer keys, the maximum. Delete an unused key first.")
    if any(one.key_id == key.key_id for one in known):
        raise Conflict("The organization already has an issuer key with this keyId.")
    if any(one.public_key == key.public_key for one in known):
        raise Conflict("The organization already has this issuer key, with another keyId.")
    await connection.execute(proof_issuer_keys.insert().values(asdict(key) | {"algorithm": key.algorithm.value}))


async def list_keys(connection: AsyncConnection, org_id: str) -> list[IssuerKey]:
    """All keys of an organization, oldest first."""
    statement = (
        sa.select(proof_issuer_keys).where(proof_issuer_keys.c.org_id == org_id).order_by(proof_issuer_keys.c.id)
    )
    return [_key(row) for row in (await connection.execute(statement)).mappings()]


async def load_key(connection: AsyncConnection, org_id: str, key_id: str) -> IssuerKey:
    """The organization's key with this id. The id is not the key id that envelopes name. Raises NotFound."""
    columns = proof_issuer_keys.c
    statement = sa.select(proof_issuer_keys).where(columns.org_id == org_id, columns.id == key_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise NotFound
    return _key(row)


def _key(row: sa.RowMapping) -> IssuerKey:
    return IssuerKey(**{**row, "algorithm": KeyAlgorithm(row["algorithm"])})


_EXAMPLE: Final = {
    "issuer": "https://ci.example.com",
    "name": "Shop CI",
    "publicKey": "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
}
PATH: Final = "/orgs/{orgSlug}/proof-issuers"
ONE: Final = PATH + "/{issuerKeyId}"
NEW: Final = Body(json_content(NewIssuerKey), example=_EXAMPLE)
CHANGE: Final = Body(json_content(IssuerKeyChange), example={"validUntil": "2027-01-01T00:00:00Z"})
_READ: Final = bearer(Scope.PROOFS_READ)
_WRITE: Final = bearer(Scope.KEYS_WRITE)


@dataclass(frozen=True, slots=True)
class ProofIssuers(Handlers):
    """Handlers of issuer keys, and their dependencies. A caller who reads proofs may read the keys. Changing them needs
    the scope of keys, which administrators have. For example, the token of a CI job that submits bundles must not
    decide whose bundles count.
    """

    TAG: ClassVar = Tag(
        "proof-issuers", "Issuers of proof bundles: the public keys that verify the signatures of bundles."
    )
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {IssuerKey: Argument(self._find)})

    @route("GET", PATH, _READ)
    async def list_proof_issuers(self, caller: AuthorizationContext, connection: AsyncConnection) -> IssuerKeyList:
        """List the keys, oldest first, including expired and revoked keys."""
        found = await list_keys(connection, caller.org_id)
        return IssuerKeyList([issuer_key_body(key, self.now()) for key in found])

    @route("POST", PATH, _WRITE, status=201, body=NEW, errors=(409,))
    async def create_proof_issuer(self, request: web.Request, caller: AuthorizationContext) -> IssuerKeyBody:
        """Register a public key.

        A bundle is verified with the key if the key has signed the bundle, the bundle's `issuer.id` is `issuer`, and
        the key is valid. To rotate keys, register the next key before the validity of the previous key ends. 409 for a
        key that is already registered, and at the maximum number of keys.
        """
        issues, now = Issues(), self.now()
        body = await self.context.read_body(request, NewIssuerKey, issues)
        key = _new_key(body, caller, now, issues)
        async with begin(self.context, request) as transaction:
            await create_key(transaction.connection, key, now)
            await _record(transaction, "proof_issuer.create", key)
        return issuer_key_body(key, now)

    @route("GET", ONE, _READ)
    async def show_proof_issuer(self, key: IssuerKey) -> IssuerKeyBody:
        """Show a key."""
        return issuer_key_body(key, self.now())

    @route("PATCH", ONE, _WRITE, body=CHANGE, errors=(409,))
    async def change_proof_issuer(self, key: IssuerKey, request: web.Request) -> IssuerKeyBody:
        """Change the name of a key, or the end of its validity.

        Bundles that were verified with the key stay verified. 409 for a revoked key.
        """
        issues = Issues()
        body = await self.context.read_body(request, IssuerKeyChange, issues)
        until = None if body.valid_until is UNSET else parse_time(body.valid_until, "body.validUntil", issues)
        issues.raise_if_any("The request body is not valid.")
        async with begin(self.context, request) as transaction:
            key = await load_key(transaction.connection, key.org_id, key.id)
            until = key.valid_until if body.valid_until is UNSET else until
            _check_order(key.valid_from, until, issues)
            issues.raise_if_any("The request body is not valid.")
            if key.revoked_at is not None:
                raise Conflict("The issuer key is revoked.")
            values = {"name": key.name if body.name is UNSET else body.name, "valid_until": until}
            changed = await _update(transaction, key, "proof_issuer.change", values)
        return issuer_key_body(changed, self.now())

    @route("POST", ONE + "/revoke", _WRITE, errors=(409,), example={"reason": "The private key was printed in a log."})
    async def revoke_proof_issuer(
        self, key: IssuerKey, body: IssuerKeyRevocation, transaction: Transaction
    ) -> IssuerKeyBody:
        """Revoke a key permanently.

        The key verifies no further bundles. Bundles that it verified before keep their signature. Their responses show
        that the key is revoked, because a thief of the key could have signed them. 409 for a key that is already
        revoked.
        """
        now = self.now()
        key = await load_key(transaction.connection, key.org_id, key.id)
        if key.revoked_at is not None:
            raise Conflict("The issuer key is already revoked.")
        values = {"revoked_at": now, "revocation_reason": body.reason}
        return issuer_key_body(await _update(transaction, key, "proof_issuer.revoke", values), now)

    @route("DELETE", ONE, _WRITE, errors=(409,))
    async def delete_proof_issuer(self, key: IssuerKey, transaction: Transaction) -> None:
        """Delete a key that has not verified any bundle. 409 for a key that was used or is revoked."""
        connection = transaction.connection
        key = await load_key(connection, key.org_id, key.id)
        if key.revoked_at is not None:
            raise Conflict("A revoked key cannot be deleted, so that it cannot be registered again.")
        used = sa.select(proof_bundles.c.id).where(proof_bundles.c.issuer_key_id == key.id).limit(1)
        if await connection.scalar(used) is not None:
            raise Conflict("Bundles were verified with this key. Revoke it instead.")
        await connection.execute(proof_issuer_keys.delete().where(proof_issuer_keys.c.id == key.id))
        await _record(transaction, "proof_issuer.delete", key)

    async def _find(self, request: web.Request, _stack: AsyncExitStack) -> IssuerKey:
        """The key in the path. 404 for an unknown key precedes the faults of a body. Raises NotFound."""
        async with self.context.database.read() as connection:
            return await load_key(connection, authorization_context(request).org_id, path_id(request, "issuerKeyId"))


def _new_key(body: NewIssuerKey, caller: AuthorizationContext, now: datetime, issues: Issues) -> IssuerKey:
    """The key to store. Raises BadRequest."""
    public_key = _load_public_key(body.public_key, issues)
    valid_from = parse_time(body.valid_from, "body.validFrom", issues) or now
    valid_until = parse_time(body.valid_until, "body.validUntil", issues)
    _check_order(valid_from, valid_until, issues)
    issues.raise_if_any("The request body is not valid.")
    if public_key is None:
        raise TypeError("no fault was found in the key, but it was not loaded")
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


async def _update(transaction: Transaction, key: IssuerKey, action: str, values: dict[str, Any]) -> IssuerKey:
    """Update the key and return it with the new values."""
    await transaction.connection.execute(
        proof_issuer_keys.update().where(proof_issuer_keys.c.id == key.id).values(values)
    )
    changed = await load_key(transaction.connection, key.org_id, key.id)
    await _record(transaction, action, changed)
    return changed


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
