"""Erasures: what has to be deleted, written before anything is deleted, so that a crash, a replay or a restored backup
cannot bring it back.

Control writes an erasure in the transaction that deletes a project or an organization, or when an administrator or the
operator erases by filter (`repository.create`). Gateways read them as tombstones every few seconds
(`repository.tombstone_version`, `repository.list_tombstones`), delete what they cover until nothing returns, and
acknowledge that their journals hold no older request (`repository.acknowledge`). One gateway at a time executes an
erasure under a lease (`leases.claim`, `leases.renew`, `leases.report_progress`, `leases.complete`); after a crash
another one takes over. The relational rows of a project or an organization are deleted by control, without a lease
(`repository.list_unpurged`, `repository.mark_purged`). An erasure is COMPLETED when both halves are done.

`tables` defines the rows, `export` the lines of `sluice erasures export`.
"""
