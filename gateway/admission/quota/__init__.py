"""Quotas: how many items an organization may send in a calendar month (UTC).

    Quota.admit      before a byte of the body is read: is anything left                       -> 429 quota_exceeded
    Quota.reserve    once the items are known: do they fit; counted when the request is taken  -> 429 quota_exceeded

Both check only the organization's `Account` in memory. Accounts are synchronized in the background: `DatabaseSync` adds
to the record, a row of the relational store, every second, and reads what other processes have added; with a Redis,
`RedisSync` does the same there every fifth of a second, so that processes learn of each other sooner; `Recounter`
counts the month's items in the telemetry store every 15 minutes, and raises the record to that count.

A single process never exceeds a quota. Several can together exceed it by what arrives at the others between two
synchronizations. An unavailable store refuses nothing: a process continues with the usage that it knows.
"""
