"""Users in the relational store."""

import pytest

from chassis.db.database import Database
from control.identity import user_repository
from control.identity.user_repository import EmailTaken


@pytest.mark.both_stores
async def test_email_address_is_unique_ignoring_case(database: Database) -> None:
    async with database.write() as connection:
        first = await user_repository.create_user(connection, "ada@example.com", "Ada", "hash")
    with pytest.raises(EmailTaken):
        async with database.write() as connection:
            await user_repository.create_user(connection, "Ada@Example.com", "Another", "hash")
    async with database.read() as connection:
        assert (await user_repository.get_user(connection, first.id)).name == "Ada"
