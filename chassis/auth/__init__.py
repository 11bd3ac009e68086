"""Who is calling, and how far do they reach.

A bearer request: `bearer.BearerGuard.authenticate` takes the credential from the header, a personal access token or the
access token of a dashboard session (`jwt_check`, `signing`), and finds how its holder, and everyone on whom that
depends, stands in the organization (`standing`, cached for at most five seconds). 401 for no valid credential, or for a
session that owes its second factor; it returns a `model.Grant`, whose principal is held to its rate limit. Then
`authorize`: 404 for an organization or project that the holder cannot see, 403 for a missing scope. What it returns is
a `model.Reach`.

An export request: `project_keys.ProjectKeyGuard.check` finds the project of its key, from memory whenever it can: a
known key keeps working while the relational store is away. What it returns is a `model.ProjectIdentity`.

`tables` is where all of it is stored; `registry`, `telemetry_keys`, `members`, `users`, `sessions`, `invitations` and
`tokens` write there. `checks` is what a process has of it, and how processes tell each other of changes.
"""
