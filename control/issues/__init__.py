"""Issues: errors that are grouped by fingerprint, with a life.

An error becomes an issue in `counting`: a follower reads the occurrences that a gateway has stored in ClickHouse, and
counts each once, in one transaction with how far it has read.

People change an issue through the API. A change walks from `handlers.IssueHandlers.change_issue` through
`bodies.IssueChange.check` (400 for fields that contradict each other), `store.find` (404) and `_require_not_merged`
(409) to `lifecycle`, which has a function for each thing that may happen to an issue: `set_resolved`, `set_unresolved`,
`set_ignored`, `set_assignee`, `merge`. Each writes the row and an entry of the activity in the transaction of the
request, and changes nothing if it makes no difference. 200 promises that both are committed, with an entry of the audit
log.

`tables` has the rows beside those of `chassis.issues`, `store` the statements that several modules need, `references`
the issues that a text names (`fixes CHECKOUT-12`). `releases` orders the releases of a project, so that an occurrence
opens an issue again only where it was said to be fixed. What commits and proposals do to issues is in `control.code`.
"""
