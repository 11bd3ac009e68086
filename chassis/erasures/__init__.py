"""Erasures: records of data that must be deleted. An erasure is stored before anything is deleted, so that a crash, a
replay or a restored backup cannot bring the data back.

Control writes an erasure in the transaction that deletes a project or an organization, or when an administrator or the
operator erases by filter (`repository.create`). Gateways read erasures as tombstones every few seconds
(`repository.tombstone_version`, `repository.list_tombstones`). They delete the items that the tombstones cover,
repeatedly until no more of them are stored, and acknowledge that their journals hold no older request
(`repository.acknowledge`). One gateway at a time executes an erasure under a lease (`leases.claim`, `leases.renew`,
`leases.report_progress`, `leases.complete`). After a crash another gateway continues. Control deletes the relational
rows of a project or an organization, without a lease (`repository.list_unpurged`, `repository.mark_purged`). An erasure
is COMPLETED when telemetry and relational rows are deleted.

`tables` defines the rows, `export` the lines of `sluice erasures export`.
"""
