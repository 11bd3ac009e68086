"""Deleting organizations and projects, and erasing by filter: control's half (see `control.governance`).

`deletion` takes a project or an organization out of sight in one transaction, `purge` deletes the remaining rows.
`api` creates erasures by filter and lists all erasures, `housekeeping` deletes old filters and counts open erasures.
An organization is deleted like a project, and its users, audit events and slug with it.
"""
