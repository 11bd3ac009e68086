"""The public keys of a provider (RFC 7517, 7518, 8037), and which of them a signature is verified with.

Only public members of known types are read: a provider that publishes private keys by mistake is used like any other.
A key that is not understood or not acceptable is ignored, as RFC 7517, section 5 demands, and does not spoil the set.
"""

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from joserfc.jws import JWSRegistry

from control.identity.sso.refusal import LoginRefused

# The algorithms that an ID token may be signed with, and the library's name of each. Neither `none` nor HMAC: with the
# latter a public key or a secret that the browser's user may know would sign. RFC 9864 renames EdDSA with this curve.
ALGORITHMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: name for family in ("RS", "PS", "ES") for name in (f"{family}256", f"{family}384", f"{family}512")},
        "EdDSA": "Ed25519",
        "Ed25519": "Ed25519",
    }
)
MAX_KEYS: Final = 50  # in a key set; the largest known ones have a dozen
MIN_RSA_BITS: Final = 2_048  # RFC 7518, section 3.3
MAX_RSA_BITS: Final = 8_192  # verification with a larger one is slow
_MAX_NUMBER_LENGTH: Final = 1_366  # characters of base64url: MAX_RSA_BITS
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
    """The key set does not have the key of this id: the provider may have added it since."""

    def __init__(self, kid: str) -> None:
        super().__init__("unknown_key", f"The provider's key set has no key with the id {kid}")
        self.kid = kid


def decode_key_set(body: bytes) -> KeySet:
    """The acceptable signature keys in a JWK set, at least one. Raises LoginRefused."""
    try:
        document = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LoginRefused("provider_keys_invalid", str(error)) from error
    keys = [key for raw in document.keys if (key := _import_key(raw)) is not None]
    if not keys:
        raise LoginRefused("provider_keys_invalid", "The key set has no acceptable signature key.")
    return KeySet(keys)


def has_key(keys: KeySet, kid: str) -> bool:
    """Whether one of the keys has this id."""
    return any(key.kid == kid for key in keys)


def select_key(keys: KeySet, algorithm: str, kid: str | None) -> Key:
    """The one key that a signature is verified with: the one of that id; without an id the only one that fits the
    algorithm (OpenID Connect Core 1.0, section 10.1). Raises LoginRefused, UnknownKey.
    """
    if kid is not None and not has_key(keys, kid):
        raise UnknownKey(kid)
    found = [key for key in keys if kid in (None, key.kid) and _fits(key, algorithm)]
    if not found:
        raise LoginRefused("key_not_suitable", f"No key for {algorithm}, key id {kid}")
    if len(found) > 1:
        raise LoginRefused("key_ambiguous", f"{len(found)} keys for {algorithm}, key id {kid}")
    return found[0]


def _fits(key: Key, algorithm: str) -> bool:
    """Whether type, curve, `use`, `alg` and `key_ops` of the key permit to verify with the algorithm."""
    try:
        JWSRegistry.algorithms[ALGORITHMS[algorithm]].check_key(key)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True


def _import_key(raw: msgspec.Raw) -> Key | None:
    """The key, or None if it is not acceptable."""
    try:
        public = msgspec.json.decode(raw, type=_RsaKey | _EcKey | _EdwardsKey)
        if public.use not in (None, "sig"):
            return None
        if isinstance(public, _RsaKey) and not MIN_RSA_BITS <= _bits(public.n) <= MAX_RSA_BITS:
            return None  # checked first: the library warns of small keys on stderr
        members: dict[str, Any] = msgspec.to_builtins(public)
        if "alg" in members:
            members["alg"] = ALGORITHMS.get(members["alg"], members["alg"])
        return JWKRegistry.import_key(members)
    except (msgspec.MsgspecError, JoseError, ValueError, RecursionError):  # ValueError: no point on the curve, base64
        return None


def _bits(number: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()
