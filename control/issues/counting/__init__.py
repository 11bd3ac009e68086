"""Counts occurrences of errors in issues, in the background.

`follower.IssueFollower.poll` reads a page of occurrences in storage order. `occurrences.by_issue` sums the page up by
fingerprint. `read_occurrence_texts` reads the texts of errors that have no issue. Then `counter.count` runs in one
transaction. In this transaction `regrouping.plan` finds the issue to which each fingerprint leads, also after an
upgrade of the grouping rules. `rows` computes the new values of the rows and whether an issue is reopened.
`project_state` keeps the quotas of new issues and of notifications, and enqueues messages to channels. `progress.store`
moves the checkpoint in the same transaction, and fails if another process has already counted the page.

An occurrence is never refused. Beyond the quota of new issues, it is counted for its project without an issue. `task`
makes the changes that no occurrence causes: it ends the ignoring of issues, reports withheld notifications, clears
titles of erased errors, and deletes old issues.
"""
