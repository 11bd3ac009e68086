"""Tells people and programs: messages wait in the store and leave when their channel takes them.

`outbox.enqueue` writes one delivery per channel in the transaction of what it tells of, so neither is there without the
other. After the commit `sending.Sender.attempt` sends at once, within a budget; what is not through by then is sent by
`worker.Worker`, which claims rows under a lease (`store`), tries again with growing pauses (`outcome`), and ends with
DONE, DEAD or CANCELLED. `kinds` makes of a message what a platform takes, and `kinds.send` sends it through the guarded
way out.

What a 2xx of a request that tells something promises: its deliveries are in the store. Each is made at least once
unless it ends as DEAD or CANCELLED, which `deliveries` shows, and always under the same id.
"""
