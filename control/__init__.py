"""Control manages organizations: who they are, what they may do, and what happened to them.

| Package | Subject |
| --- | --- |
| `identity` | who acts: accounts, logins, members, tokens; single sign-on, directories |
| `approvals` | what people decide: policies, requests, votes; proofs of decisions |
| `issues` | what went wrong: issues, their occurrences and releases |
| `code` | what changed: releases, proposals, change events, source maps; whose change it was |
| `notify` | what is sent to people: channels, deliveries |
| `inbound` | what other systems send: integrations, their webhooks, buttons of chats |
| `export` | what is copied to object stores and warehouses |
| `governance` | organizations and projects, erasures, subscriptions, the audit log as it is read |

They stand on `routing` (declared routes, resources), `http` (what bodies and queries share), `audit` (the log),
`outbound` (calls to addresses that customers name) and `secrets` (what is stored encrypted). `app` builds everything.

A request, for example `POST /orgs/{orgSlug}/projects`: `chassis.http.access` has the `BearerGuard` authenticate the
credential and load its scopes (401; 404 for an organization that the caller is not a member of, and for a resource that
does not exist, `routing.resource`; 403 without the scope). The handler, `governance.tenants.api`, gets its body
(415, 413, 400) and a transaction, in the order of its parameters, and calls `identity.organizations.organization_store`
(409 for a slug that is taken). The same transaction writes the audit event (`audit.record`). The response shows what
was stored.

A 2xx means that the change is committed and durable. The guards of this process apply it at once; those of other
processes at once with Redis, else within five seconds. A secret is in the response that creates it and nowhere else.
"""
