"""Sealed values of the whole store: counted by key, and brought to the key that seals now.

A column says that it is sealed (`info={"sealed": True}`); its values are bound to the name of the table, the primary
key of the row, its `org_id` (empty where there is none) and the name of the column. Whoever seals keeps to that.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.secrets.secret_box import SecretBox, key_id_of

BATCH_SIZE: Final = 200  # values of a transaction, so that others get their turn


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column of sealed values, with what they are bound to."""

    table: sa.Table
    column: sa.Column[bytes]
    key: sa.Column[str]
    org: sa.Column[str] | None


def encrypted_columns(metadata: sa.MetaData) -> Iterator[EncryptedColumn]:
    """ValueError for a table whose primary key is not one column."""
    for table in metadata.sorted_tables:
        for column in table.columns:
            if column.info.get("sealed"):
                (key,) = table.primary_key.columns
                yield EncryptedColumn(table, column, key, table.columns.get("org_id"))


async def has_encrypted_values(connection: AsyncConnection, metadata: sa.MetaData) -> bool:
    """Whether the store has a sealed value."""
    for sealed in encrypted_columns(metadata):
        found = sa.select(sealed.key).where(sealed.column.is_not(None)).limit(1)
        if await connection.scalar(found) is not None:
            return True
    return False


async def count_by_key(connection: AsyncConnection, metadata: sa.MetaData) -> Counter[str]:
    """How many values each key has sealed, by its id. Raises SealBroken for what is no sealed value."""
    counted: Counter[str] = Counter()
    for sealed in encrypted_columns(metadata):
        found = await connection.stream_scalars(sa.select(sealed.column).where(sealed.column.is_not(None)))
        async for value in found:
            counted[key_id_of(bytes(value))] += 1
    return counted


async def reencrypt(
    connection: AsyncConnection, secret_box: SecretBox, encrypted_column: EncryptedColumn, after: str
) -> tuple[int, str]:
    """Bring a batch of a column to the current key, in the order of the primary key, from the row behind `after`.

    How many were changed, and the last row that was looked at, empty at the end. Raises SealBroken.
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
        place = {
            "table": encrypted_column.table.name,
            "row": row.row,
            "org": row.org,
            "column": encrypted_column.column.name,
        }
        value = secret_box.encrypt(secret_box.decrypt(bytes(row.value), **place), **place)
        await connection.execute(
            encrypted_column.table.update()
            .where(encrypted_column.key == row.row)
            .values({encrypted_column.column: value})
        )
        changed += 1
    return changed, rows[-1].row if len(rows) == BATCH_SIZE else ""
