"""The audit log: who changed what, and on whose behalf; one hash chain of events per organization.

Every change calls `record.record` in its own transaction, so either both are stored or neither is. An event contains
the hash of the previous one (`chain`), so altered, removed or inserted events are detected; with a hash that was noted
elsewhere, removal at the end is too. `record` reads events, too, for the API (`control.governance.audit_events`) and
for `sluice audit verify`, which verifies the chains (`verify`). `erasing` erases those of a deleted organization.
"""
