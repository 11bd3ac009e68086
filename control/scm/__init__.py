"""What source code management knows: releases with their commits, and proposals (pull or merge requests).

A report of a release: `releases.Releases.report` reads a body; in one transaction `release_reports.report_release`
stores the release in its projects, `commit_repository` the commits by repository and hash, and `fixes` resolves the
issues that these name as fixed, each in this release, unless another commit of it reverts the fix. A commit that
reverts an earlier fix reopens its issues. A repeated report changes nothing, and one with further commits adds these.
`issue_changes` finds and changes the issues together, because a report holds the write transaction.

A report of a proposal (`proposal_reports.report_proposal`) counts if it is newer than the last one by the platform's
clock. A merge resolves the issues of the proposal in the next release or at once, as their project says, and supersedes
the other open proposals of the same issues.

Pushes are reported by webhook (`pushes.report_push`). On the default branch a commit resolves what it names as fixed
and reopens what it reverts, once: neither another push of it nor an earlier release counts twice.
"""
