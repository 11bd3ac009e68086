"""Decides: which organizations, projects and keys there are.

A request, say `POST /orgs/{orgSlug}/projects`: `chassis.access` asks `BearerGuard.check` for the caller's reach (401,
404 for an organization out of sight, 403 without the scope); the handler in `projects` reads and validates the body
(415, 413, 400), calls `chassis.identity.registry` inside one write transaction (409 for a slug that is taken), and
answers what was stored.

A 2xx means that the change is committed and on disk; guards of this process see it at once, those of others within five
seconds. Secrets are in the answer that creates them and nowhere after.
"""
