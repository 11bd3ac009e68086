"""`sluice secrets`: the keys that secrets are stored under. `show`, `rotate` to a new key, `retire` unused ones. None
of them makes a ring where there is none.

With a key ring file, which is the default, a rotation needs no restart: processes see the new file at their next use of
it. With a ring in the settings the operator puts the new key behind the others everywhere, then in front everywhere,
runs `rotate`, and takes the old one out.
"""

import argparse
from collections import Counter

from chassis.auth.tables import metadata
from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.secrets.reencrypt import count_by_key, encrypted_columns, reencrypt
from control.secrets.secret_box import DecryptionError, KeyFile, KeyRingMissing, KeySource, SecretBox, load_key_source
from sluice import process
from sluice.settings_sources import SettingsSources


def run(arguments: argparse.Namespace) -> int:
    """Do it and print what was done; the exit code."""
    from control.channels import tables  # noqa: F401  # its sealed columns are among those of the metadata then
    from control.settings import ControlSettings

    options = SettingsSources.from_arguments(arguments)
    settings = options.chassis_settings()
    process.log_to_stderr(settings)
    migrations.check(settings.effective_database_url)
    keys = load_key_source(options.load(ControlSettings).sealing_keys, settings.data_dir / "sealing.keys")
    try:
        process.run(_work(arguments.action, settings, keys))
    except DecryptionError as error:
        raise StartupError(f"A stored secret does not open, nothing was lost: {error}.") from error
    return 0


async def _work(action: str, settings: ChassisSettings, keys: KeySource) -> None:
    database = Database.from_settings(settings)
    await database.start()
    try:
        if action == "rotate":
            await _rotate(database, keys)
        elif action == "retire":
            await _retire(database, keys)
        await _show(database, keys)
    finally:
        await database.close()


async def _rotate(database: Database, keys: KeySource) -> None:
    """A fresh key where the ring is a file; then every value under the first key. The ring is read and written within a
    writing transaction: of two who draw a key neither loses the other's.
    """
    if isinstance(keys, KeyFile):
        async with database.write():
            keys.replace(keys.read().with_new_key())
    sealer, changed = SecretBox(keys), 0
    for column in encrypted_columns(metadata):
        after, more = "", True
        while more:
            async with database.write() as connection:
                number, after = await reencrypt(connection, sealer, column, after)
            changed, more = changed + number, bool(after)
    print(f"{changed} secrets were encrypted anew with the key {sealer.current_key_id}.")


async def _retire(database: Database, keys: KeySource) -> None:
    """In a writing transaction: while it lasts, nobody stores what an old key has sealed."""
    if not isinstance(keys, KeyFile):
        raise StartupError("The key ring is a setting: take keys out of SLUICE_CONTROL_SEALING_KEYS yourself.")
    async with database.write() as connection:
        used, ring = await count_by_key(connection, metadata), keys.read()
        unused = frozenset(kid for kid in ring.keys if not used[kid] and kid != ring.current_key_id)
        keys.replace(ring.without(unused))
    print(f"{len(unused)} keys were taken out of {keys.path}.")


async def _show(database: Database, keys: KeySource) -> None:
    async with database.read() as connection:
        used: Counter[str] = await count_by_key(connection, metadata)
    try:
        ring = keys.ring()
    except KeyRingMissing as error:
        _show_missing(used)
        remedy = ": put it back from the backup." if used else " yet: `sluice control` makes it at its first start."
        raise KeyRingMissing(error.message.removesuffix(".") + remedy) from error
    for kid in ring.keys:
        print(f"key {kid}: {used[kid]} secrets{', encrypts' if kid == ring.current_key_id else ''}")
    _show_missing(Counter({kid: number for kid, number in used.items() if kid not in ring.keys}))


def _show_missing(used: Counter[str]) -> None:
    for kid in sorted(used):
        print(f"key {kid}: {used[kid]} secrets, MISSING: they cannot be opened")
