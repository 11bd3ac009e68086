"""Decides whether code fixes an issue.

`updates.update_issues` computes the state of the issues that a report may have changed. `graph` finds the changes that
fix the issues and all changes that revert these. `rules.decide_status` decides the status of each issue. `named_issues`
resolves and reopens all issues together, because a report holds the write transaction.
"""
