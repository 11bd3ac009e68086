"""Provisioning by an organization's directory: SCIM 2.0 (RFC 7643, RFC 7644, RFC 9865).

The path of a directory's request:

    tokens       `DirectoryGuard.check` looks the token up at every request (401; 404 for another organization than the
                 token's), and again in the transaction that writes
    routes       `DeferredHandlers.call`: limits the concurrent requests of a directory (429), because write
                 transactions of all organizations are serialized. The first request imports `protocol` with its library
    protocol     `users` and `groups`: the body becomes a model of the `library`, or a `patch` of the stored model (400;
                 412 for another version than If-Match names). `members`: changes of a group's members
    protocol.provisioning  the consequences for accounts and memberships (409). `options`: the roles of groups, from
                 `roleMapping` of the SSO connection
    protocol.resources     stored data becomes the response. `listing` and `filters`: pages of lists, as SQL

Success means that the change is committed, with all its consequences. For example, a user who is answered with `active`
false is no longer a member. Guards of this process apply the change at once. Guards of other processes apply it at once
with Redis, otherwise within five seconds.

Administrators issue `tokens` and see and change `options`. `operations` describes each route of SCIM for the API's
document. `messages` has the common parts of all requests and responses, errors included.
`control.identity.directory` stores users and groups.
"""
