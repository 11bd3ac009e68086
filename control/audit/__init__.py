"""The audit log: who changed what, and on whose behalf. Each organization has one hash chain of events.

Every change calls `record.record` in its own transaction, so either both are stored or neither is. An event contains
the hash of the previous event (`chain`), so altered, removed or inserted events are detected. To detect removal at the
end of the chain, compare the chain with a hash that was noted elsewhere. `record` also reads events for the API
(`control.governance.audit_events`) and for `sluice audit verify`, which verifies the chains (`verify`). `erasing`
erases the events of a deleted organization.
"""
