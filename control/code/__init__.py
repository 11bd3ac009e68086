"""What source code management knows: releases with their commits, and proposals (pull or merge requests).

A report of a release: `releases.Releases.report` reads a body; in one transaction `release_reports.report_release`
stores the release in its projects, `commit_repository` the commits by repository and hash. `messages` reads what each
fixes and reverts, `fixes.store_references` stores it, and `fixes.update_issues` resolves and reopens the issues that
may depend on it: `code_graph` finds the changes that name them and all that revert these, `code_state` says what
follows. So the state of an issue depends on what is known of the code, and not on the order in which it became known. A
repeated report changes nothing, and one with further commits adds these. `issue_changes` finds and changes the issues
together, because a report holds the write transaction.

A report of a proposal (`proposal_reports.report_proposal`) counts if it is newer than the last one by the platform's
clock. A merge into the default branch is a change of the code like a commit. It supersedes the other open proposals of
the same issues.

Pushes are reported by webhook (`pushes.report_push`). Commits count once they are on the default branch.
"""
