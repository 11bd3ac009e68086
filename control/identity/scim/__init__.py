"""Provisioning by an organization's directory: SCIM 2.0 (RFC 7643, RFC 7644, RFC 9865).

A request of a directory, step by step:

    tokens       `DirectoryGuard.check` looks the token up at every request (401; 404 for another organization than the
                 token's), and again in the transaction that writes
    routes       `DeferredHandlers.call`: a directory has a few requests at once (429), because writes of all
                 organizations take turns. The first request imports `protocol`, with the library of its models
    protocol     `users` and `groups`: the body becomes a model of the `library`, or a `patch` of the stored one (400;
                 412 for another version than that of If-Match); `members`: changes of a group's members
    protocol.provisioning  what follows from a user: account, membership, and their end (409); `options`: the roles of
                 groups, of `roleMapping` of the SSO connection
    protocol.resources     what is stored becomes the response; `listing` and `filters`: pages of lists, as SQL

Success means that the change is committed, with everything that follows from it: a user who is answered with `active`
false is no member, in this process from then on, in others as soon as their guards hear of it.

Administrators issue `tokens` and see and change `options`. `operations` has a row for each route of SCIM with what the
API's document says of it, and `messages` what all requests and responses have in common, errors included.
`control.identity.directory` stores users and groups.
"""
