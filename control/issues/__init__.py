"""Issues: errors grouped by fingerprint, each with a state and a history.

An error becomes an issue in `counting`. A follower reads the occurrences that gateways have stored in ClickHouse and
counts each occurrence once: the counts and the follower's checkpoint are written in the same transaction.

People change an issue through the API. A change passes `handlers.IssueHandlers.change_issue`,
`bodies.IssueChange.check` (400 for fields that contradict each other), `store.find` (404) and `_require_not_merged`
(409). It ends in `lifecycle`, which has a function for each change of an issue: `set_resolved`, `set_unresolved`,
`set_ignored`, `set_assignee`, `merge`. Each function writes the issue's row and an activity entry in the transaction of
the request, and writes nothing if the change makes no difference. A 200 response promises that the row, the activity
entry and an entry of the audit log are committed.

`tables` has the tables of issues except those in `chassis.issues`. `store` has the statements that several modules
need. `references` finds the issues that a text names (`fixes CHECKOUT-12`). `releases` orders the releases of a
project, so that an occurrence reopens an issue only if its release is one in which the error was said to be fixed.
`control.code` implements what commits and proposals do to issues.
"""
