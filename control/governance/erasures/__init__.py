"""Deleting organizations and projects, and erasing by filter: control's half.

`DELETE .../projects/{projectSlug}`: `control.governance.tenants.projects` checks that a user asks (`deletion.require_user`), then
one transaction (`deletion.delete_project`) writes the erasure, revokes keys, deletes channel configs, and takes the
project out of sight. From the commit on nothing of it can be used. `purge.Purger` deletes the remaining rows in
batches afterwards, and resumes after a crash; a gateway erases the telemetry (`chassis.erasures`). An organization goes
the same way (`deletion.delete_organization`), and its users, audit events and slug with it.

`requests` creates erasures by filter and lists all of them; `housekeeping` deletes old filters and counts open
erasures.
"""
