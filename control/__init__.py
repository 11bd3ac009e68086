"""Decides: who is who and may do what, what is asked of people and what they say, and whom it tells.

A request, say `POST /orgs/{orgSlug}/projects`: `chassis.http.access` asks the `BearerGuard` whose credential it is and
how far it reaches (401, 404 for an organization out of sight and for what is not there, `sight`, 403 without the
scope); the handler in `projects` reads and validates the body (415, 413, 400), calls
`control.identity.organization_repository` inside one write transaction (409 for a slug that is taken), which also gets
the event for the audit (`audit.record`), and answers what was stored.

A 2xx means that the change is committed and on disk; guards of this process see it at once, those of others at once
where there is a Redis, else within five seconds. Secrets are in the answer that creates them and nowhere after.
"""
