"""A provider that hangs, and everybody else."""

import asyncio

import pytest

from chassis.errors import RateLimited
from control.identity.sso.login.login_slots import MAX_WAITING, LoginSlots


def test_slots_are_counted_by_organization_and_given_back() -> None:
    slots = LoginSlots(2)
    with slots.taken("acme"), slots.taken("acme"):
        with pytest.raises(RateLimited) as raised, slots.taken("acme"):
            pass
        assert raised.value.retry_after == 5
        with slots.taken("globex"):
            pass
    with pytest.raises(asyncio.CancelledError), slots.taken("acme"):
        raise asyncio.CancelledError
    with slots.taken("acme"), slots.taken("acme"):
        pass
    assert MAX_WAITING > 1
