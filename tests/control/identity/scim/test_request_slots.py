"""A directory that sends everything at once, and everybody else."""

import asyncio

import pytest

from chassis.errors import RateLimited
from control.http.context import MAX_RUNNING, MAX_WAITING, RequestSlots
from tests.control.identity.scim.conftest import Directory


async def test_an_organization_has_a_few_slots_and_others_have_their_own() -> None:
    slots, running, most, done = RequestSlots("Too many requests of this directory wait. Try again."), 0, 0, list[int]()
    release = asyncio.Event()

    async def request(number: int) -> None:
        nonlocal running, most
        async with slots.taken("acme"):
            running += 1
            most = max(most, running)
            await release.wait()
            running -= 1
            done.append(number)

    requests = [asyncio.create_task(request(number)) for number in range(MAX_RUNNING + MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(RateLimited) as raised:
        async with slots.taken("acme"):
            pass
    assert raised.value.retry_after == 1
    async with slots.taken("globex"):
        pass
    requests[0].cancel()
    requests[-1].cancel()
    release.set()
    await asyncio.gather(*requests, return_exceptions=True)
    assert most == MAX_RUNNING
    assert done == list(range(1, len(requests) - 1))
    async with slots.taken("acme"):
        pass


async def test_without_a_queue_a_request_beyond_the_slots_is_refused_and_slots_are_given_back() -> None:
    slots = RequestSlots("The provider is slow.", 2, max_waiting=0, retry_after_s=5)
    async with slots.taken("acme"), slots.taken("acme"):
        with pytest.raises(RateLimited) as raised:
            async with slots.taken("acme"):
                pass
        assert (raised.value.message, raised.value.retry_after) == ("The provider is slow.", 5)
        async with slots.taken("globex"):
            pass
    with pytest.raises(asyncio.CancelledError):
        async with slots.taken("acme"):
            raise asyncio.CancelledError
    async with slots.taken("acme"), slots.taken("acme"):
        pass


async def test_requests_beyond_the_queue_are_told_to_come_again(directory: Directory) -> None:
    number = 3 * (MAX_RUNNING + MAX_WAITING)
    answers = await asyncio.gather(*[directory.call("GET", "/Users") for _ in range(number)])
    assert {status for status, _, _ in answers} <= {200, 429}
    assert sum(status == 200 for status, _, _ in answers) >= MAX_RUNNING + MAX_WAITING
    assert all(headers["Retry-After"] == "1" for status, _, headers in answers if status == 429)
