"""Proposals: pull or merge requests. `api` handles reports and lists. `store.report_proposal` records a report from any
system.
"""
