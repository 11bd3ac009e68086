"""Reports of releases with their commits. `api` handles the requests. `store.report_release` records a report from any
system.
"""
