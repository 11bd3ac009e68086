"""Encrypted values of the entire database: counts them by key, and re-encrypts them under the current key.

A column declares that it is encrypted (`info={"sealed": True}`); its values are bound to the name of the table, the
primary key of the row, its `org_id` (empty if it has none) and the name of the column. All code that encrypts follows
this.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.secrets.secret_box import SecretBox, key_id_of

BATCH_SIZE: Final = 200  # values per transaction, so that other writers do not wait long


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column of encrypted values, and the columns that they are bound to."""

    table: sa.Table
    column: sa.Column[bytes]
    key: sa.Column[str]
    org: sa.Column[str] | None


def encrypted_columns(metadata: sa.MetaData) -> Iterator[EncryptedColumn]:
    """Raises ValueError for a table whose primary key is not one column."""
    for table in metadata.sorted_tables:
        for column in table.columns:
            if column.info.get("sealed"):
                (key,) = table.primary_key.columns
                yield EncryptedColumn(table, column, key, table.columns.get("org_id"))


async def has_encrypted_values(connection: AsyncConnection, metadata: sa.MetaData) -> bool:
    """Whether the database has an encrypted value."""
    for encrypted in encrypted_columns(metadata):
        found = sa.select(encrypted.key).where(encrypted.column.is_not(None)).limit(1)
        if await connection.scalar(found) is not None:
            return True
    return False


async def count_by_key(connection: AsyncConnection, metadata: sa.MetaData) -> Counter[str]:
    """The number of values encrypted under each key, by key id. Raises DecryptionError for a value that is not
    encrypted.
    """
    counted: Counter[str] = Counter()
    for encrypted in encrypted_columns(metadata):
        found = await connection.stream_scalars(sa.select(encrypted.column).where(encrypted.column.is_not(None)))
        async for value in found:
            counted[key_id_of(bytes(value))] += 1
    return counted


async def reencrypt(
    connection: AsyncConnection, secret_box: SecretBox, encrypted_column: EncryptedColumn, after: str
) -> tuple[int, str]:
    """Re-encrypt a batch of a column under the current key, in the order of the primary key, starting after the row
    `after`.

    Returns the number of changed values, and the last row that was read, empty at the end. Raises DecryptionError.
    """
    org = sa.literal("") if encrypted_column.org is None else encrypted_column.org
    page = (
        sa.select(encrypted_column.key.label("row"), org.label("org"), encrypted_column.column.label("value"))
        .where(encrypted_column.column.is_not(None), encrypted_column.key > after)
        .order_by(encrypted_column.key)
        .limit(BATCH_SIZE)
    )
    rows = (await connection.execute(page)).all()
    changed = 0
    for row in rows:
        if key_id_of(bytes(row.value)) == secret_box.current_key_id:
            continue
        context = {
            "table": encrypted_column.table.name,
            "row": row.row,
            "org": row.org,
            "column": encrypted_column.column.name,
        }
        value = secret_box.encrypt(secret_box.decrypt(bytes(row.value), **context), **context)
        await connection.execute(
            encrypted_column.table.update()
            .where(encrypted_column.key == row.row)
            .values({encrypted_column.column: value})
        )
        changed += 1
    return changed, rows[-1].row if len(rows) == BATCH_SIZE else ""
