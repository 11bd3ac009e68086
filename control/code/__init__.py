"""What source code management knows: releases with their commits, proposals (pull or merge requests), change events.

A report of a release: `releases.api.Releases.report_release` reads a body (400 for what is not valid) and calls
`releases.store.report_release` in one transaction. That stores the release in its projects and the commits by
repository and hash (`commits`; 409 for too many). `messages` reads what each fixes and reverts,
`fixes.updates.store_references` stores it, and `fixes.updates.update_issues` resolves and reopens the issues that may
depend on it. So the state of an issue depends on what is known of the code, and not on the order in which it became
known. 200 and 201 promise that all of this is committed. A repeated report changes nothing, and one with further
commits adds these.

A report of a proposal (`proposals.store.report_proposal`) counts if it is newer than the last one by the platform's
clock. A merge into the default branch is a change of the code like a commit. It supersedes the other open proposals of
the same issues.

Pushes are reported by webhook (`pushes.report_push`). Commits count once they are on the default branch.

The tables of commits, proposals and reverts are in `control.issues.releases.tables`: the order of releases and the
causes of regressions read them, too.

`changes` has the time line of deployments, releases and flags, `issue_links` the tickets of other systems, `suspects`
ranks the commits that may have caused an issue, `source_maps` takes those of minified JavaScript. `row_limits` bounds
the rows of an organization.
"""
