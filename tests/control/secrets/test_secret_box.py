"""Secrets at rest: what opens, what does not, where the keys come from, how they are rotated."""

import base64
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from control.secrets.secret_box import (
    ConfiguredKeys,
    DecryptionError,
    EncryptionUnavailable,
    KeyFile,
    KeyRing,
    KeyRingMissing,
    KeyRingUnusable,
    SecretBox,
    format_ring,
    generate_key,
    key_id_of,
    load_key_source,
    parse_ring,
)

PLACE = {"table": "t", "row": "r", "org": "o", "column": "c"}
RING = KeyRing({"k1": b"1" * 32})
SEALER = SecretBox(ConfiguredKeys(RING))


@given(st.binary(max_size=300), st.dictionaries(st.sampled_from(list(PLACE)), st.text(max_size=20)))
def test_what_was_sealed_opens_in_its_place(plain: bytes, changed: dict[str, str]) -> None:
    place = PLACE | changed
    sealed = SEALER.encrypt(plain, **place)
    assert SEALER.decrypt(sealed, **place) == plain
    assert len(sealed) == len(plain) + 2 + 2 + 12 + 16
    assert plain not in sealed or len(plain) < 4
    if place != PLACE:
        with pytest.raises(DecryptionError):
            SEALER.decrypt(sealed, **PLACE)


def test_a_value_does_not_open_in_another_place() -> None:
    """And the parts of a place do not run into each other."""
    sealed = SEALER.encrypt(b"secret", **PLACE)
    for part, name in PLACE.items():
        with pytest.raises(DecryptionError):
            SEALER.decrypt(sealed, **PLACE | {part: f"{name}x"})
    sealed = SEALER.encrypt(b"secret", table="ab", row="c", org="", column="d")
    with pytest.raises(DecryptionError):
        SEALER.decrypt(sealed, table="a", row="bc", org="", column="d")


def test_every_altered_byte_and_every_cut_is_noticed() -> None:
    sealed = SEALER.encrypt(b"secret", **PLACE)
    for position in range(len(sealed)):
        altered = bytearray(sealed)
        altered[position] ^= 1
        with pytest.raises(DecryptionError):
            SEALER.decrypt(bytes(altered), **PLACE)
        with pytest.raises(DecryptionError):
            SEALER.decrypt(sealed[:position], **PLACE)


def test_the_same_value_is_sealed_differently_each_time() -> None:
    assert len({SEALER.encrypt(b"secret", **PLACE) for _ in range(10)}) == 10


def test_it_is_aes_256_gcm_as_documented() -> None:
    """Against the primitive itself: a later release must open what this one wrote."""
    sealed = SEALER.encrypt(b"secret", **PLACE)
    assert sealed[:4] == b"\x01\x02k1"
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (b"k1", b"t", b"r", b"o", b"c"))
    aad = b"sluice sealed 1\0" + parts
    assert AESGCM(b"1" * 32).decrypt(sealed[4:16], sealed[16:], aad) == b"secret"


def test_the_first_key_seals_and_all_open() -> None:
    kid, key = generate_key()
    old, new = SecretBox(ConfiguredKeys(RING)), SecretBox(ConfiguredKeys(KeyRing({kid: key, **RING.keys})))
    assert new.decrypt(old.encrypt(b"secret", **PLACE), **PLACE) == b"secret"
    assert key_id_of(new.encrypt(b"secret", **PLACE)) == kid == new.current_key_id
    with pytest.raises(DecryptionError, match=f"encrypted with the key {kid}, which is not in the key ring"):
        old.decrypt(new.encrypt(b"secret", **PLACE), **PLACE)


KEY = base64.b64encode(b"k" * 32).decode()


def test_a_ring_is_read_from_text() -> None:
    for text in (f"a:{KEY}", f"a:{KEY},b:{KEY}", f"a:{KEY}\nb:{KEY}\n", f" a:{KEY} , b:{KEY} "):
        ring = parse_ring(text, "the ring")
        assert ring.current_key_id == "a"
        assert set(ring.keys.values()) == {b"k" * 32}
        assert parse_ring(format_ring(ring), "it") == ring
        assert KEY not in repr(ring)


def test_a_bad_ring_is_refused_without_showing_it() -> None:
    for text in (
        "", "a", f":{KEY}", KEY, "a:", f"a:{KEY[:-4]}", f"a:{KEY}x", f"a:{KEY},a:{KEY}", f"a b:{KEY}",
        f"{'a' * 33}:{KEY}", f"ä:{KEY}", ",".join(f"k{n}:{KEY}" for n in range(33)),
    ):  # fmt: skip
        with pytest.raises(KeyRingUnusable) as raised:
            parse_ring(text, "The ring")
        assert KEY[:20] not in str(raised.value)


def test_the_file_is_made_once_private_and_shared(tmp_path: Path) -> None:
    path = tmp_path / "sealing.keys"
    with ThreadPoolExecutor(8) as threads:
        rings = list(threads.map(lambda _: KeyFile(path).generate(), range(8)))
    assert len({ring.current_key_id for ring in rings}) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["sealing.keys"]
    assert SecretBox(load_key_source("", path)).current_key_id == rings[0].current_key_id


def test_no_use_of_a_ring_makes_one(tmp_path: Path) -> None:
    keys = load_key_source("", tmp_path / "sealing.keys")
    with pytest.raises(KeyRingMissing, match=r"The key ring .*sealing.keys does not exist"):
        keys.ring()
    with pytest.raises(EncryptionUnavailable):
        SecretBox(keys).encrypt(b"secret", **PLACE)
    of_settings = load_key_source(f"a:{KEY}", tmp_path / "sealing.keys")  # it comes before the file
    assert of_settings.ring().current_key_id == "a"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text("nonsense")])
def test_a_running_process_keeps_the_ring_whose_file_is_gone(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    keys = KeyFile(tmp_path / "sealing.keys")
    ring = keys.generate()
    sealed = SecretBox(keys).encrypt(b"secret", **PLACE)
    harm(keys.path)
    assert SecretBox(keys).decrypt(sealed, **PLACE) == b"secret"
    assert keys.ring() == ring
    with pytest.raises(KeyRingUnusable):
        keys.read()
    keys.path.write_text(format_ring(ring))
    assert keys.read() == ring


def test_another_ring_has_the_owner_and_mode_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = KeyFile(tmp_path / "elsewhere" / "keys")
    real.generate()
    real.path.chmod(0o640)
    if os.geteuid() == 0:  # as an operator may be
        os.chown(real.path, 1_234, 4_321)
    before = real.path.stat()
    (tmp_path / "sealing.keys").symlink_to(real.path)
    linked = KeyFile(tmp_path / "sealing.keys")
    linked.replace(linked.read().with_new_key())
    after = real.path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert len(real.read().keys) == 2
    assert linked.path.is_symlink()
    assert [file.name for file in real.path.parent.iterdir()] == ["keys"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_ring_is_on_disk_with_its_name_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    """Else a power loss takes the key that secrets were encrypted with meanwhile."""
    keys, synced = KeyFile(tmp_path / "sealing.keys"), list[tuple[bool, bool]]()
    ring = keys.generate() if replace else None
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), keys.path.exists() and keys.read() != ring))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    keys.generate() if ring is None else keys.replace(ring.with_new_key())
    assert synced == [(False, False), (True, True)]


def test_a_running_process_takes_over_a_new_ring(tmp_path: Path) -> None:
    running, command = KeyFile(tmp_path / "keys"), KeyFile(tmp_path / "keys")
    command.generate()
    sealer = SecretBox(running)
    sealed = sealer.encrypt(b"secret", **PLACE)
    command.replace(command.ring().with_new_key())
    assert sealer.current_key_id == command.ring().current_key_id != key_id_of(sealed)
    assert sealer.decrypt(sealed, **PLACE) == b"secret"
    command.replace(command.ring().without(frozenset(command.ring().keys)))
    assert len(running.ring().keys) == 1  # the first one stays
    with pytest.raises(DecryptionError):
        sealer.decrypt(sealed, **PLACE)


def test_a_file_that_will_not_do_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sealing.keys"
    path.write_text("nonsense")
    with pytest.raises(KeyRingUnusable, match=r"The key ring .*sealing.keys is not valid: item 1"):
        load_key_source("", path)
    path.write_bytes(b"\xff")
    with pytest.raises(KeyRingUnusable, match="it is not UTF-8 text"):
        load_key_source("", path)
    with pytest.raises(KeyRingUnusable, match="cannot be used"):
        load_key_source("", tmp_path)
    with pytest.raises(KeyRingUnusable, match="cannot be created"):
        KeyFile(tmp_path / "missing" / "sealing.keys").generate()
    with pytest.raises(KeyRingUnusable, match="SLUICE_CONTROL_SEALING_KEYS is not valid"):
        load_key_source("nonsense", path)
