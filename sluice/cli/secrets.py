"""`sluice secrets`: shows the keys that encrypt stored secrets, rotates to a new key, retires unused keys. No action
creates a missing key ring.

With a key ring file (the default), a rotation needs no restart: processes read the new file at its next use. With a key
ring in the settings, the operator appends the new key in every process, then moves it to the front in every process,
runs `rotate`, and removes the old key.
"""

import argparse
from collections import Counter

from chassis.auth.tables import metadata
from chassis.db.database import Database
from chassis.errors import StartupError
from control.secrets.keyring import count_by_key, encrypted_columns, reencrypt
from control.secrets.secret_box import DecryptionError, KeyFile, KeyRingMissing, KeySource, SecretBox, load_key_source
from sluice.cli.database import load_settings, on_database
from sluice.settings_sources import SettingsSources


def run(arguments: argparse.Namespace) -> int:
    """Run the action and print the result; the exit code."""
    from control.settings import ControlSettings

    register_encrypted_columns()
    sources = SettingsSources.from_arguments(arguments)
    settings = load_settings(arguments)
    keys = load_key_source(sources.load(ControlSettings).sealing_keys, settings.data_dir / "sealing.keys")
    try:
        on_database(settings, lambda database: _work(database, arguments.action, keys))
    except DecryptionError as error:
        raise StartupError(f"A stored secret cannot be decrypted: {error}. No secret was lost.") from error
    return 0


def register_encrypted_columns() -> None:
    """Import all tables with encrypted columns. If one were missing, a key that it uses would look unused and be
    retired."""
    import control.app  # noqa: F401 (every table of the service)


async def _work(database: Database, action: str, keys: KeySource) -> None:
    if action == "rotate":
        await _rotate(database, keys)
    elif action == "retire":
        await _retire(database, keys)
    await _show(database, keys)


async def _rotate(database: Database, keys: KeySource) -> None:
    """Generate a key if the ring is a file, then re-encrypt every secret with the first key. The ring is read and
    written within a write transaction, so that concurrent rotations do not lose each other's key.
    """
    if isinstance(keys, KeyFile):
        async with database.write():
            keys.replace(keys.read().with_new_key())
    secret_box, changed = SecretBox(keys), 0
    for column in encrypted_columns(metadata):
        after, more = "", True
        while more:
            async with database.write() as connection:
                number, after = await reencrypt(connection, secret_box, column, after)
            changed, more = changed + number, bool(after)
    print(f"Secrets re-encrypted with key {secret_box.current_key_id}: {changed}.")


async def _retire(database: Database, keys: KeySource) -> None:
    """Remove unused keys, in a write transaction, so that no process stores a secret with an old key meanwhile."""
    if not isinstance(keys, KeyFile):
        raise StartupError("The key ring is in SLUICE_CONTROL_SEALING_KEYS: remove unused keys from that setting.")
    async with database.write() as connection:
        used, ring = await count_by_key(connection, metadata), keys.read()
        unused = frozenset(kid for kid in ring.keys if not used[kid] and kid != ring.current_key_id)
        keys.replace(ring.without(unused))
    print(f"Keys removed from {keys.path}: {len(unused)}.")


async def _show(database: Database, keys: KeySource) -> None:
    async with database.read() as connection:
        used: Counter[str] = await count_by_key(connection, metadata)
    try:
        ring = keys.ring()
    except KeyRingMissing as error:
        _show_missing(used)
        hint = ": restore it from the backup." if used else " yet: `sluice control` creates it at its first start."
        raise KeyRingMissing(error.message.removesuffix(".") + hint) from error
    for kid in ring.keys:
        print(f"key {kid}: {used[kid]} secrets{', encrypts new secrets' if kid == ring.current_key_id else ''}")
    _show_missing(Counter({kid: number for kid, number in used.items() if kid not in ring.keys}))


def _show_missing(used: Counter[str]) -> None:
    for kid in sorted(used):
        print(f"key {kid}: MISSING, so its {used[kid]} secrets cannot be decrypted")
