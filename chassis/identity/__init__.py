"""Who is calling, and how far do they reach.

A bearer request: `bearer.BearerGuard.authenticate` takes the personal access token from the header and finds its
holder's live membership (cached for at most five seconds), 401 for no valid token; it returns a `model.Grant`, whose
principal is held to its rate limit. Then `authorize`: 404 for an organization or project that the holder cannot see,
403 for a missing scope. What it returns is a `model.Reach`.

An export request: `project_keys.ProjectKeyGuard.check` finds the project of its key, from memory whenever it can: a
known key keeps working while the relational store is away. What it returns is a `model.ProjectIdentity`.

`tables` is where all of it is stored; `registry` is the only module that writes there.
"""
