"""Control manages organizations: their members, what each member may do, and what happened in the organization.

| Package | Subject |
| --- | --- |
| `identity` | principals: accounts, logins, members, tokens, single sign-on, directories |
| `approvals` | decisions of people: policies, approval requests, votes, proof bundles |
| `issues` | errors: issues, their occurrences and releases |
| `code` | code changes: releases, proposals, change events, source maps, suspect commits |
| `notify` | messages to people: channels, deliveries |
| `inbound` | messages from other systems: integrations, their webhooks, buttons in chats |
| `export` | copies of data in object stores and warehouses |
| `governance` | organizations and projects, erasures, subscriptions, reading the audit log |

They use `routing` (declared routes, resources), `http` (shared parts of bodies and queries), `audit` (the log),
`outbound` (calls to addresses that customers name) and `secrets` (encryption of stored secrets). `app` builds the
service.

One request, for example `POST /orgs/{orgSlug}/projects`, takes this path. In `chassis.http.access`, the `BearerGuard`
authenticates the credential and loads its scopes. It answers 401 for an invalid credential, 404 for an organization
that the caller is not a member of and for a resource that does not exist (`routing.resource`), and 403 without the
scope. The handler, in `governance.tenants.api`, gets its body (415, 413, 400) and a transaction, in the order of its
parameters, and calls `identity.organizations.organization_store` (409 for a slug that is taken). The same transaction
writes the audit event (`audit.record`). The response shows what was stored.

A 2xx means that the change is committed and durable. The guards of this process apply the change at once. The guards of
other processes apply it at once with Redis, and within five seconds without Redis. A secret is in the response that
creates it and in no other response.
"""
