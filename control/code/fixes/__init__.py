"""Whether code fixes an issue.

`updates.update_issues` computes the state of the issues that a report may have changed: `graph` finds the changes that
fix them and everything that reverts these, `rules.decide_status` says what follows, and `named_issues` resolves and
reopens the issues together, because a report holds the write transaction.
"""
