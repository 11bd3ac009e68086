"""Deletes organizations and projects, and erases by filter: the part that control does (see `control.governance`).

`deletion` hides a project or an organization in one transaction. `purge` deletes the remaining rows. `api` creates
erasures by filter and lists all erasures. `housekeeping` deletes old filters and counts open erasures. An organization
is deleted like a project, together with its users and audit events. Its slug is not used again.
"""
