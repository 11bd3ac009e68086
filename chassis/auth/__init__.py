"""Authentication and authorization: the checks that every service makes.

A bearer request: `credential_guards.BearerGuard.authenticate` parses the credential in the header, which is a personal
access token or the access token of a dashboard session (`jwt`). `authenticate` loads the credential with the membership
status of its holder and of every principal that the credential depends on (`grants`), caches the result for at most
five seconds, and raises 401 for an invalid credential. `chassis.http.access` then applies the principal's rate limit to
the `model.AuthenticatedCredential`, and rejects a session with a pending second factor with 401.
`BearerGuard.authorize` raises 404 for an organization or project that the holder cannot see, raises 403 for a missing
scope, and returns a `model.AuthorizationContext`.

An export request: `credential_guards.ProjectKeyGuard.check` finds the project of the request's key and returns a
`model.ProjectIdentity`. Keys are cached, so a known key keeps working while the database is unavailable.

`tables` defines the stored rows, and the repositories in `control.identity` write them. `guards.AuthGuards` holds the
guards of a process and publishes invalidations to the other processes. `usage` records the quota usage of
organizations.
"""
