"""Asks people before something is done: requests, votes on them, and what comes of it.

`requests.ApprovalRequests.create` asks `control.policies.evaluation` what becomes of an action. ALLOW and DENY are the
answer; for ASK `store.ask` writes a request that waits (or finds the same one waiting; `ceilings` say how many may),
the outbox gets a message per channel in the same transaction, and channels are tried for three seconds after it.

A vote goes through `voting.approve` or `voting.reject`, one transaction each: the request is read anew, the voter's
right is looked up in the store as it is then, the vote is written, and the votes of those who may still decide are
counted (`model.count_votes`), of people who have nothing to do with each other (`apart`). The one vote that makes it
enough decides the request; writers take turns (`chassis.db.database`), and the update holds only for a request that
waits. A request that nobody decided in time is EXPIRED, which is a fact of time: `Request.status_at` says so, whatever
is in the store.
"""
