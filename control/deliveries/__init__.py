"""Tells people and programs: messages wait in the store and leave when their channel takes them.

`outbox.enqueue` writes one delivery per channel in the transaction of what it tells of, so neither is there without the
other. After the commit `sending.Sender.attempt` sends at once, within a budget; what is not through by then is sent by
`worker.Worker`, which claims rows under a lease, tries again with growing pauses, and ends with DONE, DEAD or CANCELLED.
A delivery is made at least once, always under the same id. `transport` is the way out, `templates` the words.
"""
