"""The ID token (OpenID Connect Core 1.0, sections 2 and 3.1.3.7): a JWT that the provider signs for one login, with a
key of its key set (RFC 7517, 7518, 8037).

A token is not trusted before its signature is verified, and the key never comes from the token: `jwk`, `jku`, `x5u` and
`x5c` in its header are ignored. `joserfc` parses and verifies. This module decides about the key, the algorithm and the
claims. Only public members of keys of known types are read, so a provider that publishes private keys by mistake works
like any other. A key that is unknown or not acceptable is ignored, as RFC 7517, section 5 requires, and the other keys
of the set stay usable.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import JWKRegistry, Key, KeySet
from joserfc.jws import JWSRegistry

from control.identity.sso.refusal import LoginRefused, decode_document

# The algorithms that an ID token may be signed with, and their names in the library. `none` and HMAC are excluded: with
# HMAC, a public key or a secret that the browser's user may know could sign. RFC 9864 renames EdDSA with this curve.
ALGORITHMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: name for family in ("RS", "PS", "ES") for name in (f"{family}256", f"{family}384", f"{family}512")},
        "EdDSA": "Ed25519",
        "Ed25519": "Ed25519",
    }
)
MAX_KEYS: Final = 50  # per key set; the largest known sets have a dozen
MIN_RSA_BITS: Final = 2_048  # RFC 7518, section 3.3
MAX_RSA_BITS: Final = 8_192  # verification with a larger key is slow
_MAX_NUMBER_LENGTH: Final = 1_366  # characters of base64url for MAX_RSA_BITS
_MAX_EXPONENT_LENGTH: Final = 11  # 64 bits; 65 537 is usual
_MAX_KEY_ID_LENGTH: Final = 1_000  # characters

_Number = Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_NUMBER_LENGTH)]
_Exponent = Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_EXPONENT_LENGTH)]
_Word = Annotated[str, msgspec.Meta(max_length=32)]
_Operations = Annotated[list[_Word], msgspec.Meta(max_length=16)]


class _PublicKey(msgspec.Struct, tag_field="kty", omit_defaults=True, kw_only=True):
    kid: Annotated[str, msgspec.Meta(max_length=_MAX_KEY_ID_LENGTH)] | None = None
    use: _Word | None = None
    alg: _Word | None = None
    key_ops: _Operations | None = None


class _RsaKey(_PublicKey, tag="RSA"):
    n: _Number
    e: _Exponent


class _EcKey(_PublicKey, tag="EC"):
    crv: Literal["P-256", "P-384", "P-521"]
    x: _Number
    y: _Number


class _EdwardsKey(_PublicKey, tag="OKP"):
    crv: Literal["Ed25519"]
    x: _Number


class _Document(msgspec.Struct):
    keys: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_KEYS)]


class UnknownKey(LoginRefused):
    """The key set does not have a key with this id. The provider may have added the key since."""

    def __init__(self, kid: str) -> None:
        super().__init__("unknown_key", f"The provider's key set has no key with the id {kid}")
        self.kid = kid


def decode_key_set(body: bytes) -> KeySet:
    """The acceptable signature keys in a JWK set, at least one. Raises LoginRefused."""
    document = decode_document(body, _Document, "provider_keys_invalid")
    keys = [key for raw in document.keys if (key := _import_key(raw)) is not None]
    if not keys:
        raise LoginRefused("provider_keys_invalid", "The key set has no acceptable signature key.")
    return KeySet(keys)


def has_key(keys: KeySet, kid: str) -> bool:
    """Whether one of the keys has this id."""
    return any(key.kid == kid for key in keys)


def select_key(keys: KeySet, algorithm: str, kid: str | None) -> Key:
    """The one key that a signature is verified with: the key with this id. Without an id, the only key that fits the
    algorithm (OpenID Connect Core 1.0, section 10.1). Raises LoginRefused, UnknownKey.
    """
    if kid is not None and not has_key(keys, kid):
        raise UnknownKey(kid)
    found = [key for key in keys if kid in (None, key.kid) and _fits(key, algorithm)]
    if not found:
        raise LoginRefused(
            "key_not_suitable", f"The provider's key set has no key for {algorithm} with the key id {kid}"
        )
    if len(found) > 1:
        raise LoginRefused(
            "key_ambiguous", f"The provider's key set has {len(found)} keys for {algorithm} with the key id {kid}"
        )
    return found[0]


def _fits(key: Key, algorithm: str) -> bool:
    """Whether type, curve, `use`, `alg` and `key_ops` of the key permit verification with the algorithm."""
    try:
        JWSRegistry.algorithms[ALGORITHMS[algorithm]].check_key(key)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True


def _import_key(raw: msgspec.Raw) -> Key | None:
    """The key, None if it is not acceptable."""
    try:
        public = msgspec.json.decode(raw, type=_RsaKey | _EcKey | _EdwardsKey)
        if public.use not in (None, "sig"):
            return None
        if isinstance(public, _RsaKey) and not MIN_RSA_BITS <= _bits(public.n) <= MAX_RSA_BITS:
            return None  # checked first, because the library warns of small keys on stderr
        members: dict[str, Any] = msgspec.to_builtins(public)
        if "alg" in members:
            members["alg"] = ALGORITHMS.get(members["alg"], members["alg"])
        return JWKRegistry.import_key(members)
    except (msgspec.MsgspecError, JoseError, ValueError, RecursionError):  # ValueError: not on the curve, base64
        return None


def _bits(number: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()


MAX_LENGTH: Final = 16 * 1024  # characters of a token
SKEW: Final = timedelta(seconds=60)  # between the provider's clock and the clock of Sluice
MAX_AGE: Final = timedelta(minutes=10)  # since `iat`, so that a token of an earlier login is not accepted
_SUBJECT: Final = re.compile(r"[\x20-\x7e]{1,255}")  # OpenID Connect Core 1.0, section 2: at most 255 ASCII characters
_LATEST_S: Final = 253_402_300_799  # the end of the year 9999, in epoch seconds
_HASHES: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}


@dataclass(frozen=True, slots=True)
class IdToken:
    """The provider's data about the user. `claims` are all claims, of any JSON type except for checked claims."""

    subject: str
    claims: dict[str, Any]
    auth_methods: tuple[str, ...]  # `amr` (RFC 8176); empty if it is absent or not a list of strings
    acr: str | None
    expires_at: datetime


_NumericDate = Annotated[float, msgspec.Meta(ge=0, le=_LATEST_S)]  # RFC 7519, section 2: epoch seconds


class _Claims(msgspec.Struct):
    """The claims that are checked. Null counts as absent."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: _NumericDate
    iat: _NumericDate
    nbf: _NumericDate | None = None
    azp: str | None = None
    nonce: str | None = None


class _Registry(jws.JWSRegistry):
    """Limits of the serialization, and the allowed algorithms under the library's names."""

    max_header_length = 8 * 1024  # a header may contain a chain of certificates
    max_payload_length = MAX_LENGTH
    max_signature_length = 2 * 1024

    def get_alg(self, name: str) -> JWSAlgModel:
        return super().get_alg(ALGORITHMS.get(name, name))


_REGISTRY: Final = _Registry(algorithms=frozenset(ALGORITHMS.values()), strict_check_header=False)


def verify_id_token(
    token: str,
    keys: KeySet,
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    now: datetime,
    access_token: str | None = None,
) -> IdToken:
    """The token, if the provider signed it for this client and this login. `access_token`: the access token of the same
    response, which is compared with `at_hash`. Raises LoginRefused. Raises UnknownKey if the keys may have to be
    fetched again.
    """
    algorithm, claims = _verify_signature(token, keys)
    checked = _check_types(claims)
    _check_parties(checked, issuer, client_id)
    _check_times(checked, now)
    _check_nonce(checked, nonce)
    _check_subject(checked)
    if access_token is not None and claims.get("at_hash") is not None:
        _check_access_token(claims["at_hash"], access_token, algorithm)
    acr = claims.get("acr")
    return IdToken(
        subject=checked.sub,
        claims=claims,
        auth_methods=_auth_methods(claims.get("amr")),
        acr=acr if isinstance(acr, str) else None,
        expires_at=datetime.fromtimestamp(checked.exp, UTC),
    )


def _verify_signature(token: str, keys: KeySet) -> tuple[str, dict[str, Any]]:
    """The algorithm and the claims of a token that one of the keys signed. Raises LoginRefused."""
    if len(token) > MAX_LENGTH:
        raise LoginRefused("id_token_too_large", f"More than {MAX_LENGTH} characters")
    signed = _read(token)
    header: Any = signed.headers()
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise LoginRefused("id_token_malformed", "The header must be an object with an algorithm.")
    algorithm, kid = header["alg"], header.get("kid")
    if algorithm not in ALGORITHMS:
        raise LoginRefused("algorithm_not_allowed", algorithm)
    if "crit" in header or "b64" in header:  # RFC 7515, section 4.1.11: no extension is understood
        raise LoginRefused("critical_header", f"crit: {header.get('crit')}")
    if not isinstance(kid, str | None):
        raise LoginRefused("id_token_malformed", "The key id must be a string.")
    key = select_key(keys, algorithm, kid)
    try:
        is_valid = jws.validate_compact(signed, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError) as error:  # members of the header have the wrong type
        raise LoginRefused("id_token_malformed", str(error)) from error
    if not is_valid:
        raise LoginRefused("signature_invalid", f"{algorithm}, key id {kid}")
    return algorithm, decode_document(signed.payload, dict[str, Any], "id_token_malformed")


def _read(token: str) -> jws.CompactSignature:
    """The parts of the compact serialization (RFC 7515, section 7.1). Raises LoginRefused."""
    try:
        return jws.extract_compact(token.encode("ascii"), registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise LoginRefused("id_token_malformed", str(error)) from error


def _check_types(claims: dict[str, Any]) -> _Claims:
    try:
        return msgspec.convert(claims, _Claims)
    except (msgspec.ValidationError, OverflowError) as error:
        raise LoginRefused("claims_invalid", str(error)) from error


def _check_parties(claims: _Claims, issuer: str, client_id: str) -> None:
    """Check the issuer and the audience of the token."""
    if claims.iss != issuer:
        raise LoginRefused("issuer_mismatch", f"Expected {issuer}, got {claims.iss}")
    audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if client_id not in audiences:
        raise LoginRefused("audience_mismatch", f"Expected {client_id}, got {', '.join(audiences)}")
    if claims.azp is None and len(audiences) > 1:
        raise LoginRefused("authorized_party_missing", f"The audiences are {', '.join(audiences)}")
    if claims.azp not in (None, client_id):
        raise LoginRefused("authorized_party_mismatch", f"Expected {client_id}, got {claims.azp}")


def _check_times(claims: _Claims, now: datetime) -> None:
    at, skew_s = now.timestamp(), SKEW.total_seconds()
    if at >= claims.exp + skew_s:
        raise LoginRefused("id_token_expired", f"exp is {claims.exp:.0f}, the time {at:.0f}")
    if claims.nbf is not None and at < claims.nbf - skew_s:
        raise LoginRefused("id_token_not_yet_valid", f"nbf is {claims.nbf:.0f}, the time {at:.0f}")
    if at < claims.iat - skew_s:
        raise LoginRefused("id_token_from_future", f"iat is {claims.iat:.0f}, the time {at:.0f}")
    if at > claims.iat + MAX_AGE.total_seconds() + skew_s:
        raise LoginRefused("id_token_too_old", f"iat is {claims.iat:.0f}, the time {at:.0f}")


def _check_nonce(claims: _Claims, nonce: str) -> None:
    """Check that the token answers the request of this browser (replay)."""
    if claims.nonce is None:
        raise LoginRefused("nonce_missing")
    if not hmac.compare_digest(claims.nonce.encode(), nonce.encode()):
        raise LoginRefused("nonce_mismatch")


def _check_subject(claims: _Claims) -> None:
    if _SUBJECT.fullmatch(claims.sub) is None:
        raise LoginRefused("subject_invalid", "Must have 1 to 255 printable ASCII characters.")


def _check_access_token(at_hash: Any, access_token: str, algorithm: str) -> None:
    """Check `at_hash`, the left half of the hash (OpenID Connect Core 1.0, section 3.1.3.6). Ed25519 uses SHA-512."""
    digest = _HASHES.get(algorithm[-3:], hashlib.sha512)(access_token.encode()).digest()
    expected = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    if not isinstance(at_hash, str) or not hmac.compare_digest(at_hash.encode(), expected):
        raise LoginRefused("access_token_mismatch", "at_hash is not the hash of the access token.")


def _auth_methods(amr: Any) -> tuple[str, ...]:
    return tuple(amr) if isinstance(amr, list) and all(isinstance(method, str) for method in amr) else ()
