"""Passwords: one computation compares a password with all accounts of an address."""

from typing import Any

import pytest
from argon2 import PasswordHasher

from control.identity.passwords import MAX_COMPUTATIONS, Passwords, same_salt

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
