"""What was changed, by whom, in whose name: one chain of events per organization.

Whoever changes something calls `record.record` inside the transaction of the change, so that neither is there without
the other. Every event holds the hash of the one before it (`chain`): what is altered, left out or put in between shows,
and against a hash that was noted down elsewhere also what is cut off at the end. `events` lists and exports them,
`sluice audit verify` checks the chains.
"""
