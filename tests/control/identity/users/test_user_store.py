"""Accounts in the relational store: which addresses and organizations they may share; and how passwords are hashed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import exc

from chassis.auth.tables import users
from chassis.db.database import Database
from chassis.errors import Conflict
from control.identity.organizations import organization_store
from control.identity.users import user_store
from control.identity.users.passwords import MAX_COMPUTATIONS, Passwords, same_salt
from control.identity.users.user_store import EmailTaken
from proto.identity import PrincipalKind, Role

pytestmark = pytest.mark.both_stores

ADA = "ada@example.com"


async def new_organization(database: Database, slug: str) -> str:
    async with database.write() as connection:
        return (await organization_store.create_organization(connection, slug, slug)).id


async def create(database: Database, email: str, home_org_id: str | None, name: str = "Ada") -> str:
    async with database.write() as connection:
        return (await user_store.create_user(connection, email, name, "hash", home_org_id=home_org_id)).id


async def test_one_account_verifies_an_address_and_one_of_an_organization_has_it(database: Database) -> None:
    acme, globex = await new_organization(database, "acme"), await new_organization(database, "globex")
    made = [await create(database, ADA, home) for home in (acme, globex, None)]
    for home in (acme, globex, None):
        with pytest.raises(EmailTaken):
            await create(database, "Ada@Example.com", home, "Another")
    async with database.read() as connection:
        found = await user_store.list_accounts(connection, "aDA@example.com")
    assert [user.id for user in found] == [made[2], made[0], made[1]], "the verified one first, then by age"


async def test_only_one_account_of_an_address_can_be_verified(database: Database) -> None:
    made = [await create(database, ADA, await new_organization(database, slug)) for slug in ("acme", "globex")]
    async with database.write() as connection:
        first, second = [await user_store.get_user(connection, one) for one in made]
        await user_store.verify_email(connection, first)
    with pytest.raises(EmailTaken):
        async with database.write() as connection:
            await user_store.verify_email(connection, second)
    async with database.read() as connection:
        states = [await user_store.get_user(connection, one) for one in made]
    assert [(user.email_verified, user.home_org_id is None) for user in states] == [(True, True), (False, False)]


async def test_the_database_itself_holds_what_an_account_is(database: Database) -> None:
    """A verified account has no home; and two accounts with one address are never both verified."""
    await create(database, ADA, None)
    confined = await create(database, ADA, await new_organization(database, "acme"))
    changes: tuple[dict[str, Any], ...] = ({"email_verified": True}, {"email_verified": True, "home_org_id": None})
    for change in changes:
        with pytest.raises(exc.IntegrityError):
            async with database.write() as connection:
                await connection.execute(users.update().where(users.c.principal_id == confined).values(change))


async def test_unverified_account_joins_no_organization_but_its_own(database: Database) -> None:
    acme, globex = await new_organization(database, "acme"), await new_organization(database, "globex")
    confined, closed = await create(database, ADA, acme), await create(database, "bob@example.com", globex)
    async with database.write() as connection:
        await user_store.leave_home(connection, closed, globex)
        await organization_store.add_membership(connection, acme, confined, Role.MEMBER)
        for account, org in ((confined, globex), (closed, acme), (closed, globex)):
            with pytest.raises(Conflict, match="confined to another organization"):
                await organization_store.add_membership(connection, org, account, Role.MEMBER)
        await user_store.verify_email(connection, await user_store.get_user(connection, confined))
        await organization_store.add_membership(connection, globex, confined, Role.MEMBER)
        machine = await organization_store.create_principal(connection, PrincipalKind.AGENT, "x", confined)
        await organization_store.add_membership(connection, globex, machine.id, Role.MEMBER)


async def test_closed_account_frees_its_address_in_the_organization(database: Database) -> None:
    acme = await new_organization(database, "acme")
    first = await create(database, ADA, acme)
    for _ in range(2):
        async with database.write() as connection:
            await user_store.leave_home(connection, first, acme)
            assert await user_store.list_accounts(connection, ADA) == []
            assert await user_store.find_password_hash(connection, ADA) == "hash", "its salt stays"
        first = await create(database, ADA, acme)


async def test_disabled_accounts_are_listed_as_such(database: Database) -> None:
    made = await create(database, ADA, None)
    async with database.write() as connection:
        await organization_store.disable_principal(connection, made)
        [user] = await user_store.list_accounts(connection, ADA)
    assert user.disabled_at is not None
    assert user.disabled_at <= datetime.now(UTC)


OTHER = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was hashed."""
    compute, seen = PasswordHasher.hash, []

    def recording(self: PasswordHasher, password: str, **named: Any) -> str:
        seen.append(password)
        return compute(self, password, **named)

    monkeypatch.setattr(PasswordHasher, "hash", recording)
    return seen


async def test_accounts_of_one_salt_cost_one_computation(computed: list[str]) -> None:
    passwords = Passwords()
    first = await passwords.hash("first")
    stored = [first, *[await passwords.hash(f"other {number}", salted_like=first) for number in range(50)]]
    same = await passwords.hash("other 7", salted_like=stored[3])
    assert same == stored[8]
    computed.clear()
    assert await passwords.find_matching(stored, "other 7") == {stored[8]}
    assert await passwords.find_matching(stored, "none of them") == frozenset()
    assert await passwords.find_matching([], "other 7") == frozenset()
    assert await passwords.find_matching(["nonsense", "$argon2id$v=19$m=8,t=1,p=1$YQ$YQ"], "other 7") == frozenset()
    assert len(computed) == 4, "one each, whether there are accounts or not"


async def test_hashes_of_earlier_parameters_match_too_and_computations_are_bounded(computed: list[str]) -> None:
    passwords = Passwords()
    earlier = OTHER.hash("secret", salt=b"s" * 16)
    later = await passwords.hash("secret", salted_like=earlier)
    assert same_salt(earlier, later)
    assert await passwords.find_matching([later, earlier], "secret") == {later, earlier}
    foreign = [await passwords.hash("secret") for _ in range(4)]
    computed.clear()
    assert await passwords.find_matching(foreign, "secret") == set(foreign[:MAX_COMPUTATIONS])
    assert len(computed) == MAX_COMPUTATIONS


async def test_salts_are_random_unless_one_is_given() -> None:
    passwords = Passwords()
    one, other = [await passwords.hash("secret") for _ in range(2)]
    assert not same_salt(one, other)
    assert not same_salt(one, await passwords.hash("secret", salted_like="nonsense"))
    assert same_salt(None, one)


async def test_stored_hash_verifies_with_the_library() -> None:
    passwords = Passwords()
    stored = await passwords.hash("secret")
    assert PasswordHasher().verify(stored, "secret")
    assert await passwords.matches(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("secret"), "secret")
    assert not await passwords.matches(stored, "Secret")
    assert not await passwords.matches(None, "secret")
