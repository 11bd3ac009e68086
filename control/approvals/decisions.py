"""A vote with what follows from it, for every way of voting: the API and chats."""

from collections.abc import Awaitable, Callable

from sqlalchemy.ext.asyncio import AsyncConnection

from control.approvals import notifications
from control.approvals.notifications import RequestLinks
from control.approvals.voting import VoteOutcome, VoteRequest

Vote = Callable[[AsyncConnection, VoteRequest], Awaitable[VoteOutcome]]


async def cast(connection: AsyncConnection, vote: Vote, request: VoteRequest, links: RequestLinks) -> VoteOutcome:
    """Cast the vote (`voting.approve`, `voting.reject`) and enqueue notifications of a decision, without waiting for
    their delivery. Raises what the vote raises.
    """
    outcome = await vote(connection, request)
    if outcome.decided:
        await notifications.notify_resolved(connection, outcome.request, links, request.now)
    return outcome
