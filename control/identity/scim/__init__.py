"""Provisioning by an organization's directory: SCIM 2.0 (RFC 7643, RFC 7644, RFC 9865).

A request, step by step:

    guard            the token is looked up at every request (401; 404 for another organization than the token's),
                     and again in the transaction that writes
    control.http.request_slots  a directory has a few at once, for writes of all organizations take turns
    users, groups    handlers: the body (`media_type`) becomes the library's model (`models`), or a `patch` of the
                     stored one (400; 412 for another version than that of If-Match)
    members          changes of a group's members, read from a PATCH without the members that there are
    provisioning     what follows from a user: account, membership, and their end (409); `roles`: the roles of groups
    group_membership what follows from a change of a group
    resources        what is stored becomes the response; `listing` and `filters`: pages of lists, as SQL

Success means that the change is committed, with everything that follows from it: a user who is answered with `active`
false is no member, in this process from then on, in others as soon as their guards hear of it.

What administrators see and change: `tokens`, `settings`. `discovery` describes the endpoint, `errors` renders errors,
`endpoint` has what the handlers share. `routes` lists all routes and `operations` describes them, without the library
of the models: `deferred_handlers` imports the handlers with the first request. `control.identity.directory` stores users and
groups.
"""
