"""Secrets at rest: AES-256-GCM under a ring of keys, each value bound to the location that it is stored in.

An encrypted value is `version (1 byte) | length of kid (1) | kid | nonce (12) | ciphertext and tag`. Table, row,
organization and column are its associated data: a value that is copied into another row does not decrypt.

The ring consists of `kid:base64` items, separated by commas or lines. The first key encrypts, all keys decrypt. The
ring comes from the settings, or otherwise from a file in the data directory (mode 0600). The file is read again when it
has changed, so a rotation of its keys needs no restart. Only `control.secrets.keyring` generates the file, at the first
start, because a new ring in place of a lost one would decrypt nothing.
"""

import base64
import binascii
import contextlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from chassis.errors import ServiceUnavailable, StartupError
from chassis.runtime.key_file import create_private, replace_private

KEY_BYTES: Final = 32
MAX_KEYS: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_VERSION: Final = 1
_CONTEXT: Final = b"sluice sealed 1\0"
_KID: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


class KeyRingUnusable(StartupError):
    """The ring cannot be read, written or parsed. The message is one sentence for the operator, without keys."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class KeyRingMissing(KeyRingUnusable):
    """The file does not exist."""


class EncryptionUnavailable(ServiceUnavailable):
    """There is no usable ring at the moment. The cause of the exception says why."""

    def __init__(self) -> None:
        super().__init__("Secret storage is temporarily unavailable.")


class DecryptionError(Exception):
    """A value cannot be decrypted: it was altered, moved to another location, or its key is not in the ring."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id, in order. The first key encrypts."""

    keys: Mapping[str, bytes]

    @property
    def current_key_id(self) -> str:
        """Id of the key that encrypts."""
        return next(iter(self.keys))

    def with_new_key(self) -> "KeyRing":
        """The ring with a new key in front. Raises KeyRingUnusable when there are MAX_KEYS."""
        if len(self.keys) >= MAX_KEYS:
            raise KeyRingUnusable(
                f"The key ring has {MAX_KEYS} keys, the maximum. Remove unused keys with `sluice secrets retire`."
            )
        kid, key = generate_key()
        return KeyRing({kid: key, **self.keys})

    def without(self, kids: frozenset[str]) -> "KeyRing":
        """The ring without these keys. The first key always stays."""
        return KeyRing({kid: key for kid, key in self.keys.items() if kid == self.current_key_id or kid not in kids})

    def __repr__(self) -> str:  # its values are secrets
        return f"KeyRing({', '.join(self.keys)})"


class KeySource(Protocol):
    """The source of the ring."""

    def ring(self) -> KeyRing:
        """The current ring. Raises KeyRingUnusable."""


@dataclass(frozen=True, slots=True)
class ConfiguredKeys:
    """The ring from the settings."""

    configured_ring: KeyRing

    def ring(self) -> KeyRing:
        return self.configured_ring


class KeyFile:
    """The ring in a file, read again when the file is replaced. The last ring is kept, so that a missing or damaged
    file does not affect a running process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loaded_stat: tuple[int, int, int] | None = None
        self._ring: KeyRing | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the ring has been read."""
        return self._ring is not None

    def ring(self) -> KeyRing:
        """The ring of the file, or the last one read from it. Raises KeyRingUnusable when there was none."""
        try:
            return self.read()
        except KeyRingUnusable:
            if self._ring is None:
                raise
            return self._ring

    def read(self) -> KeyRing:
        """The ring in the file as it is now. Raises KeyRingMissing, KeyRingUnusable."""
        try:
            found = self.path.stat()
            seen = found.st_ino, found.st_mtime_ns, found.st_size
            if self._ring is None or seen != self._loaded_stat:
                self._ring = parse_ring(self.path.read_text(encoding="utf-8"), f"The key ring {self.path}")
                self._loaded_stat = seen
        except FileNotFoundError as error:
            raise KeyRingMissing(f"The key ring {self.path} does not exist.") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise KeyRingUnusable(f"The key ring {self.path} cannot be used: {reason}.") from error
        return self._ring

    def generate(self) -> KeyRing:
        """Create the file with one new key, unless it exists. Raises KeyRingUnusable."""
        try:
            create_private(self.path, format_ring(KeyRing(dict([generate_key()]))))
        except OSError as error:
            raise KeyRingUnusable(f"The key ring {self.path} cannot be created: {error.strerror}.") from error
        return self.read()

    def replace(self, ring: KeyRing) -> None:
        """Write another ring, atomically. A caller that derives it from the current ring holds a write transaction, so
        that no other process does the same. Raises KeyRingUnusable.
        """
        try:
            replace_private(self.path, format_ring(ring))
        except OSError as error:
            raise KeyRingUnusable(f"The key ring {self.path} cannot be written: {error.strerror}.") from error


class SecretBox:
    """Encrypts and decrypts values, bound to their location. `org` is empty for rows without an organization."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    def encrypt(self, plaintext: bytes, *, table: str, row: str, org: str, column: str) -> bytes:
        """The value to store, 31 to 62 bytes longer than `plaintext`. Raises EncryptionUnavailable."""
        ring = self._ring()
        kid = ring.current_key_id.encode("ascii")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ciphertext = AESGCM(ring.keys[ring.current_key_id]).encrypt(
            nonce, plaintext, _associated_data(kid, table, row, org, column)
        )
        return bytes((_VERSION, len(kid))) + kid + nonce + ciphertext

    def decrypt(self, ciphertext: bytes, *, table: str, row: str, org: str, column: str) -> bytes:
        """Decrypt a stored value. Raises DecryptionError, EncryptionUnavailable."""
        kid = key_id_of(ciphertext)
        key = self._ring().keys.get(kid)
        if key is None:
            raise DecryptionError(f"the value is encrypted with the key {kid}, which is not in the key ring")
        rest = ciphertext[2 + len(kid) :]
        try:
            return AESGCM(key).decrypt(
                rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _associated_data(kid.encode("ascii"), table, row, org, column)
            )
        except InvalidTag as error:
            raise DecryptionError(f"the value in {table}.{column} was altered or moved from another row") from error

    @property
    def current_key_id(self) -> str:
        """Id of the key that encrypts now."""
        return self._ring().current_key_id

    def _ring(self) -> KeyRing:
        try:
            return self._source.ring()
        except KeyRingUnusable as error:
            raise EncryptionUnavailable from error


def key_id_of(ciphertext: bytes) -> str:
    """Id of the key that a value is encrypted with. Raises DecryptionError for bytes that are not an encrypted
    value.
    """
    length = ciphertext[1] if len(ciphertext) > 1 else 0
    kid = ciphertext[2 : 2 + length].decode("ascii", "replace")
    if ciphertext[:1] != bytes((_VERSION,)) or not _KID.fullmatch(kid):
        raise DecryptionError("the value is not encrypted, or was encrypted by a later release")
    if len(ciphertext) < 2 + length + _NONCE_BYTES + _TAG_BYTES:
        raise DecryptionError("the value is truncated")
    return kid


def load_key_source(configured: str, path: Path) -> ConfiguredKeys | KeyFile:
    """The ring of the settings if they have one (several machines must share it), otherwise the ring file, which may
    not exist yet. Raises KeyRingUnusable for an invalid ring.
    """
    if configured:
        return ConfiguredKeys(parse_ring(configured, "SLUICE_CONTROL_SEALING_KEYS"))
    keys = KeyFile(path)
    with contextlib.suppress(KeyRingMissing):
        keys.read()
    return keys


def parse_ring(text: str, name: str) -> KeyRing:
    """Parse `kid:base64` items, separated by commas or white space. Raises KeyRingUnusable without quoting a key."""
    keys: dict[str, bytes] = {}
    for number, item in enumerate(re.split(r"[,\s]+", text.strip()), 1):
        kid, _, encoded = item.partition(":")
        key = _decode_key(encoded)
        if not _KID.fullmatch(kid) or key is None or kid in keys:
            raise KeyRingUnusable(
                f"{name} is not valid: item {number} must be a unique key id, a colon and {KEY_BYTES} bytes in base64."
            )
        keys[kid] = key
    if len(keys) > MAX_KEYS:
        raise KeyRingUnusable(f"{name} is not valid: it has more than {MAX_KEYS} keys.")
    return KeyRing(keys)


def format_ring(ring: KeyRing) -> str:
    """The ring as `parse_ring` reads it, one line per key."""
    return "".join(f"{kid}:{base64.b64encode(key).decode('ascii')}\n" for kid, key in ring.keys.items())


def generate_key() -> tuple[str, bytes]:
    """A random id and a random key."""
    return secrets.token_hex(4), secrets.token_bytes(KEY_BYTES)


def _decode_key(encoded: str) -> bytes | None:
    try:
        key = base64.b64decode(encoded.encode("utf-8"), validate=True)
    except binascii.Error:
        return None
    return key if len(key) == KEY_BYTES else None


def _associated_data(kid: bytes, table: str, row: str, org: str, column: str) -> bytes:
    """The associated data of a value. The length of each part precedes it, so that two locations never have the same
    bytes.
    """
    parts = [kid, *(part.encode("utf-8") for part in (table, row, org, column))]
    return _CONTEXT + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
