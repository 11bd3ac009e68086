"""Authentication and authorization: the checks that every service makes.

A bearer request: `credential_guards.BearerGuard.authenticate` parses the credential in the header: a personal access
token, or the access token of a dashboard session (`jwt`). It loads the credential with the membership status of its
holder and of every principal it depends on (`grants`), cached for at most five seconds, and raises 401 for an invalid
credential. `chassis.http.access` then applies the rate limit of the principal to the
`model.AuthenticatedCredential` and rejects a session with a pending second factor with 401. `BearerGuard.authorize`
raises 404 for an organization or project that the holder cannot see, 403 for a missing scope, and returns a
`model.AuthorizationContext`.

An export request: `credential_guards.ProjectKeyGuard.check` finds the project of its key, from memory when possible: a
known key keeps working while the database is unavailable. It returns a `model.ProjectIdentity`.

`tables` defines the stored rows; the repositories in `control.identity` write them. `guards.AuthGuards` holds the
guards of a process and publishes invalidations to the other processes. `usage` records the quota usage of
organizations.
"""
