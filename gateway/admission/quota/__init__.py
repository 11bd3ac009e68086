"""How many items an organization may send in a calendar month (UTC).

    Quota.admit     before a byte of the body is read: is anything left                            -> 429 quota_exceeded
    Quota.charge    once the items are known: do they still fit; counted when the request is taken -> 429 quota_exceeded

Both ask the organization's `Account` in memory and nobody else. What accounts hold is exchanged behind the requests:
`Recorder` adds to the record, a row of the relational store, every second, and reads what others have added; with a
Redis `Sharer` does the same there every fifth of a second, so that processes know of each other sooner; `Recounter` has
the telemetry store count what it has of the month, now and then, and raises the record to it.

A process alone never takes an item too many. Several take, together, what arrives at the others of them between two
exchanges. None of the stores being away refuses anything: a process goes on by what it knows.
"""
