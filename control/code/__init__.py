"""Data from source code management: releases with their commits, proposals (pull or merge requests), change events.

A report of a release goes through `releases.api.Releases.report_release`, which reads the body (400 if it is not valid)
and calls `releases.store.report_release` in one transaction. This function stores the release in its projects, and the
commits by repository and hash (`commits`; 409 for too many). `messages` reads which issues each commit fixes and which
changes it reverts, and `fixes.updates.store_references` stores both. `fixes.updates.update_issues` then resolves and
reopens the issues that may depend on the report. The state of an issue depends on what is known of the code, and not on
the order in which reports arrived. 200 and 201 promise that all of this is committed. A repeated report changes
nothing. A report with further commits adds these commits.

A report of a proposal (`proposals.store.report_proposal`) counts if it is newer than the last report by the platform's
clock. A merge into the default branch changes the code as a commit does. It supersedes the other open proposals of the
same issues.

Webhooks report pushes (`pushes.report_push`). Commits count once they are on the default branch.

The tables of commits, proposals and reverts are in `control.issues.releases.tables`, because the order of releases and
the causes of regressions read these tables, too.

`changes` has the time line of deployments, releases and flags. `issue_links` has the tickets of other systems.
`suspects` ranks the commits that may have caused an issue. `source_maps` stores source maps of minified JavaScript.
`row_limits` bounds the rows of an organization.
"""
