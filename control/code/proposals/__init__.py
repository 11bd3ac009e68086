"""Proposals: pull or merge requests. `api` handles reports and lists, `reports.report_proposal` records a report from
whatever system, `store` has the statements.
"""
