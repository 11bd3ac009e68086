"""Organizations, members, credentials, single sign-on, provisioning, approvals, notification channels, audit.

A request, for example `POST /orgs/{orgSlug}/projects`: `chassis.http.access` has the `BearerGuard` authenticate the
credential and load its scopes (401; 404 for an organization that the caller is not a member of and for a resource that
does not exist, `existence`; 403 without the scope). The handler in `tenants.projects` reads and validates the body
(415, 413, 400) and calls `control.identity.organizations.organization_store` in one write transaction (409 for a slug that is
taken). The same transaction writes the audit event (`audit.record`). The response shows what was stored.

A 2xx means that the change is committed and durable. The guards of this process apply it at once; those of other
processes at once with Redis, else within five seconds. A secret is in the response that creates it and nowhere else.
"""
