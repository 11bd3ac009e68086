"""Counts occurrences of errors in issues, in the background.

`follower.IssueFollower.poll` reads a page of occurrences in storage order. `occurrences.by_issue` sums them up by
fingerprint, and `read_occurrence_texts` reads the texts of errors that have no issue. Then `counter.count` runs in one
transaction: `regrouping.plan` says which issue each fingerprint leads to, also after an upgrade of the rules of
grouping; `rows` computes new rows and whether an issue is open again; `project_state` has the quotas of new issues and
notifications, and enqueues messages to channels. `progress.store` moves the checkpoint in the same transaction, and
fails if another process has counted the page.

An occurrence is never refused: beyond the quota it counts for its project without an issue. `task` does what no
occurrence causes: ignoring ends, sums of notifications, erased titles, old issues.
"""
