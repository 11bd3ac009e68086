"""Human approval before an action: requests, votes on them, and their outcome.

`requests.ApprovalRequests.create` calls `submission.submit`, which has `control.approvals.policies.rules` decide about the
action. ALLOW and DENY are final. For ASK, `repository.create` inserts an open request (unless `repository.find_open`
returns the same one; `open_limits` bounds their number), the outbox gets a message per channel in the same transaction,
and after the commit deliveries are attempted for up to three seconds.

A vote runs through `voting.approve` or `voting.reject` in one transaction each: it reads the request and the voter's
current permissions again, asks the rules (`vote_rules`), writes the vote, and counts the votes of those who may still
decide (`model.count_votes`), as far as their owner groups are disjoint (`independence`). `views` asks the same rules to
say beforehand what a vote would be answered. Exactly one vote decides the request: write transactions are
serialized (`chassis.db.database`), and the update applies only to an open request. A request that nobody decides in
time is EXPIRED by time alone: `RequestRecord.status_at` computes this, whatever is stored.
"""
