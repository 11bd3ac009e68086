"""Secrets at rest: AES-256-GCM under a ring of keys, each value bound to the place that it is stored in.

A sealed value is `version (1 byte) | length of kid (1) | kid | nonce (12) | ciphertext and tag`. Table, row,
organization and column are authenticated with it: a value that is copied into another row does not open.

The ring is `kid:base64` items, separated by commas or lines. The first key seals, all of them open. It comes from the
settings, or else from a file in the data directory (mode 0600), which is read again when it has changed: a rotation
needs no restart there. The file is drawn at the first start (`control.secrets.keyring_watch`) and by nothing else:
another ring in the place of a lost one would open nothing.
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
    """The ring cannot be read, written or understood; the message is one sentence for the operator, without keys."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class KeyRingMissing(KeyRingUnusable):
    """There is no such file."""


class EncryptionUnavailable(ServiceUnavailable):
    """There is no ring, for now; the cause says why."""

    def __init__(self) -> None:
        super().__init__("Secrets cannot be stored or read at the moment.")


class DecryptionError(Exception):
    """A sealed value does not open: altered, moved to another place, or sealed with a key that is not in the ring."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id, in order: the first one seals."""

    keys: Mapping[str, bytes]

    @property
    def current_key_id(self) -> str:
        """Id of the key that seals."""
        return next(iter(self.keys))

    def with_new_key(self) -> "KeyRing":
        """A fresh key in front. Raises KeyRingUnusable when there are MAX_KEYS."""
        if len(self.keys) >= MAX_KEYS:
            raise KeyRingUnusable(f"The key ring holds {MAX_KEYS} keys; `sluice secrets retire` takes unused ones out.")
        kid, key = generate_key()
        return KeyRing({kid: key, **self.keys})

    def without(self, kids: frozenset[str]) -> "KeyRing":
        """Without these; the first one always stays."""
        return KeyRing({kid: key for kid, key in self.keys.items() if kid == self.current_key_id or kid not in kids})

    def __repr__(self) -> str:  # its values are secrets
        return f"KeyRing({', '.join(self.keys)})"


class KeySource(Protocol):
    """Where the ring comes from."""

    def ring(self) -> KeyRing:
        """As it is now. Raises KeyRingUnusable."""


@dataclass(frozen=True, slots=True)
class ConfiguredKeys:
    """The ring of the settings."""

    configured_ring: KeyRing

    def ring(self) -> KeyRing:
        return self.configured_ring


class KeyFile:
    """The ring in a file, read again when the file was replaced. What was read once is kept: a file that is gone or
    damaged stops no process that runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loaded_stat: tuple[int, int, int] | None = None
        self._ring: KeyRing | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the ring was read."""
        return self._ring is not None

    def ring(self) -> KeyRing:
        """That of the file, or the last one that was there. Raises KeyRingUnusable when none was."""
        try:
            return self.read()
        except KeyRingUnusable:
            if self._ring is None:
                raise
            return self._ring

    def read(self) -> KeyRing:
        """That of the file as it is now. Raises KeyRingMissing, KeyRingUnusable."""
        try:
            found = self.path.stat()
            seen = found.st_ino, found.st_mtime_ns, found.st_size
            if self._ring is None or seen != self._loaded_stat:
                self._ring = parse_ring(self.path.read_text(encoding="utf-8"), f"The key ring {self.path}")
                self._loaded_stat = seen
        except FileNotFoundError as error:
            raise KeyRingMissing(f"The key ring {self.path} does not exist.") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise KeyRingUnusable(f"The key ring {self.path} cannot be used: {reason}.") from error
        return self._ring

    def generate(self) -> KeyRing:
        """A ring of one fresh key, unless there is one. Raises KeyRingUnusable."""
        try:
            create_private(self.path, format_ring(KeyRing(dict([generate_key()]))))
        except OSError as error:
            raise KeyRingUnusable(f"The key ring {self.path} cannot be made: {error.strerror}.") from error
        return self.read()

    def replace(self, ring: KeyRing) -> None:
        """Write another ring, atomically. Whoever has read the old one for it holds the store's turn to write, so that
        no other process does the same. Raises KeyRingUnusable.
        """
        try:
            replace_private(self.path, format_ring(ring))
        except OSError as error:
            raise KeyRingUnusable(f"The key ring {self.path} cannot be written: {error.strerror}.") from error


class SecretBox:
    """Seals and opens values; the place is authenticated with them. `org` is empty for rows of no organization."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    def encrypt(self, plaintext: bytes, *, table: str, row: str, org: str, column: str) -> bytes:
        """`plain` as it is stored; 31 to 62 bytes longer. Raises SealingUnavailable."""
        ring = self._ring()
        kid = ring.current_key_id.encode("ascii")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(ring.keys[ring.current_key_id]).encrypt(
            nonce, plaintext, _associated_data(kid, table, row, org, column)
        )
        return bytes((_VERSION, len(kid))) + kid + nonce + sealed

    def decrypt(self, ciphertext: bytes, *, table: str, row: str, org: str, column: str) -> bytes:
        """Raises SealBroken, SealingUnavailable."""
        kid = key_id_of(ciphertext)
        key = self._ring().keys.get(kid)
        if key is None:
            raise DecryptionError(f"the value is sealed with the key {kid}, which is not in the ring")
        rest = ciphertext[2 + len(kid) :]
        try:
            return AESGCM(key).decrypt(
                rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _associated_data(kid.encode("ascii"), table, row, org, column)
            )
        except InvalidTag as error:
            raise DecryptionError(f"the value in {table}.{column} does not open in its place") from error

    @property
    def current_key_id(self) -> str:
        """Id of the key that seals now."""
        return self._ring().current_key_id

    def _ring(self) -> KeyRing:
        try:
            return self._source.ring()
        except KeyRingUnusable as error:
            raise EncryptionUnavailable from error


def key_id_of(ciphertext: bytes) -> str:
    """Id of the key that a value is sealed with. Raises SealBroken for bytes that are no sealed value."""
    length = ciphertext[1] if len(ciphertext) > 1 else 0
    kid = ciphertext[2 : 2 + length].decode("ascii", "replace")
    if ciphertext[:1] != bytes((_VERSION,)) or not _KID.fullmatch(kid):
        raise DecryptionError("the value is not sealed, or by a later release")
    if len(ciphertext) < 2 + length + _NONCE_BYTES + _TAG_BYTES:
        raise DecryptionError("the value is cut off")
    return kid


def load_key_source(configured: str, path: Path) -> ConfiguredKeys | KeyFile:
    """The ring of the settings when there is one (several machines must share it), else the file, which may have to be
    drawn yet. Raises KeyRingUnusable for one that is there and will not do.
    """
    if configured:
        return ConfiguredKeys(parse_ring(configured, "SLUICE_CONTROL_SEALING_KEYS"))
    keys = KeyFile(path)
    with contextlib.suppress(KeyRingMissing):
        keys.read()
    return keys


def parse_ring(text: str, name: str) -> KeyRing:
    """Items `kid:base64`, separated by commas or white space. Raises KeyRingUnusable, which names no key."""
    keys: dict[str, bytes] = {}
    for number, item in enumerate(re.split(r"[,\s]+", text.strip()), 1):
        kid, _, encoded = item.partition(":")
        key = _decode_key(encoded)
        if not _KID.fullmatch(kid) or key is None or kid in keys:
            raise KeyRingUnusable(
                f"{name} is not usable: item {number} must be an id of its own, a colon and {KEY_BYTES} bytes "
                "in base64."
            )
        keys[kid] = key
    if len(keys) > MAX_KEYS:
        raise KeyRingUnusable(f"{name} is not usable: it holds more than {MAX_KEYS} keys.")
    return KeyRing(keys)


def format_ring(ring: KeyRing) -> str:
    """As `parse_ring` reads it, a line for each key."""
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
    """What is authenticated beside the value; each part carries its length, so that no two places look alike."""
    parts = [kid, *(part.encode("utf-8") for part in (table, row, org, column))]
    return _CONTEXT + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
