"""`/orgs/{orgSlug}/proof-issuers`: the public keys that proof bundles are verified with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET, Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.path_ids import path_id
from control.http.time_input import parse_time
from control.proofs import issuer_repository
from control.proofs.model import IssuerKey, KeyAlgorithm
from control.proofs.schemas import (
    IssuerKeyBody,
    IssuerKeyChange,
    IssuerKeyList,
    IssuerKeyRevocation,
    NewIssuerKey,
    issuer_key_body,
)
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
ID: Final = Parameter("issuerKeyId", "path", Annotated[str, Meta(min_length=1)], "The key, by its `id`.")
_ONE: Final = ResponseSpec("The key.", json_content(IssuerKeyBody))
LIST: Final = Operation("listProofIssuers", TAG, (ResponseSpec("The keys.", json_content(IssuerKeyList)),))
CREATE: Final = Operation(
    "createProofIssuer",
    TAG,
    (ResponseSpec("The key.", json_content(IssuerKeyBody), 201),),
    body=Body(json_content(NewIssuerKey), example=_EXAMPLE),
    error_statuses=(409,),
)
SHOW: Final = Operation("showProofIssuer", TAG, (_ONE,), (ID,))
CHANGE: Final = Operation(
    "changeProofIssuer",
    TAG,
    (_ONE,),
    (ID,),
    body=Body(json_content(IssuerKeyChange), example={"validUntil": "2027-01-01T00:00:00Z"}),
    error_statuses=(409,),
)
REVOKE: Final = Operation(
    "revokeProofIssuer",
    TAG,
    (_ONE,),
    (ID,),
    body=Body(json_content(IssuerKeyRevocation), example={"reason": "The key was in a log."}),
    error_statuses=(409,),
)
DELETE: Final = Operation(
    "deleteProofIssuer", TAG, (ResponseSpec("The key was deleted.", status=204),), (ID,), error_statuses=(409,)
)


@dataclass(frozen=True, slots=True)
class ProofIssuers:
    """Handlers of issuer keys, and their dependencies. Who reads proofs may read the keys. Changing them needs the
    scope of keys, which administrators have: a token of a CI job that hands in bundles must not decide whose bundles
    count.
    """

    context: HandlerContext
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/proof-issuers", "/orgs/{orgSlug}/proof-issuers/{issuerKeyId}"
        read, write = bearer(Scope.PROOFS_READ), bearer(Scope.KEYS_WRITE)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("PATCH", one, self.change, write, operation=CHANGE),
            Route("POST", one + "/revoke", self.revoke, write, operation=REVOKE),
            Route("DELETE", one, self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the keys, oldest first, also those that are expired or revoked."""
        async with self.context.database.read() as connection:
            found = await issuer_repository.list_keys(connection, authorization_context(request).org_id)
        return json_response(IssuerKeyList([issuer_key_body(key, self.now()) for key in found]))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Register a public key.

        Bundles that it has signed are verified with it if their `issuer.id` is `issuer`, while the key is valid. To
        rotate keys, register the next one before the validity of the last one ends. 409 for a
        key that is there, and at the maximum number of keys.
        """
        issues, now = Issues(), self.now()
        body = await self.context.read_body(request, NewIssuerKey, issues)
        key = _new_key(body, authorization_context(request), now, issues)
        async with self.context.write_transaction(request) as (connection, caller):
            await issuer_repository.create(connection, key, now)
            await _record_audit(connection, request, caller, "proof_issuer.create", key)
        return json_response(issuer_key_body(key, now), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a key."""
        async with self.context.database.read() as connection:
            return json_response(issuer_key_body(await _load(connection, request), self.now()))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change the name of a key, or when its validity ends.

        Bundles that were verified with it stay verified. 409 for a revoked key.
        """
        await self._require_visible(request)
        issues = Issues()
        body = await self.context.read_body(request, IssuerKeyChange, issues)
        until = None if body.valid_until is UNSET else parse_time(body.valid_until, "body.validUntil", issues)
        issues.raise_if_any("The request body is not valid.")
        async with self.context.write_transaction(request) as (connection, caller):
            known = await _load(connection, request)
            until = known.valid_until if body.valid_until is UNSET else until
            _check_order(known.valid_from, until, issues)
            issues.raise_if_any("The request body is not valid.")
            name = known.name if body.name is UNSET else body.name
            await issuer_repository.change(connection, known, name=name, valid_until=until)
            changed = await _load(connection, request)
            await _record_audit(connection, request, caller, "proof_issuer.change", changed)
        return json_response(issuer_key_body(changed, self.now()))

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke a key, for ever.

        No further bundle is verified with it. Those that were keep their signature, which says that its key is revoked:
        whoever has stolen it could have signed them. 409 for a revoked key.
        """
        await self._require_visible(request)
        body, now = await self.context.read_body(request, IssuerKeyRevocation), self.now()
        async with self.context.write_transaction(request) as (connection, caller):
            await issuer_repository.revoke(connection, await _load(connection, request), body.reason, now)
            revoked = await _load(connection, request)
            await _record_audit(connection, request, caller, "proof_issuer.revoke", revoked)
        return json_response(issuer_key_body(revoked, now))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a key that no bundle was verified with. 409 for one that was used, or is revoked."""
        await self._require_visible(request)
        async with self.context.write_transaction(request) as (connection, caller):
            known = await _load(connection, request)
            await issuer_repository.delete(connection, known)
            await _record_audit(connection, request, caller, "proof_issuer.delete", known)
        return web.Response(status=204)

    async def _require_visible(self, request: web.Request) -> None:
        """404 comes before 415."""
        async with self.context.database.read() as connection:
            await _load(connection, request)


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


async def _load(connection: AsyncConnection, request: web.Request) -> IssuerKey:
    """The key in the path. Raises NotFound."""
    org_id, key_id = authorization_context(request).org_id, path_id(request, "issuerKeyId")
    found = await issuer_repository.find(connection, org_id, key_id)
    if found is None:
        raise NotFound
    return found


async def _record_audit(
    connection: AsyncConnection, request: web.Request, caller: AuthorizationContext, action: str, key: IssuerKey
) -> None:
    data = {
        "issuer": key.issuer,
        "name": key.name,
        "keyId": key.key_id,
        "validFrom": format_time(key.valid_from),
        "validUntil": None if key.valid_until is None else format_time(key.valid_until),
        "reason": key.revocation_reason,
    }
    await record(connection, caller, action, key.id, data, request_id(request))
