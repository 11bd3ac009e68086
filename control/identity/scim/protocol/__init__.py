"""The requests of a directory: users, groups, discovery. This package is imported with the first request of a
directory, because `library` is large (`control.identity.scim.routes`).

`users` and `groups` are the handlers. `handlers` has the handlers of discovery and builds all handlers. `listing` and
`filters`: pages of lists, as SQL. `resources`: stored data becomes the response; also the shared code of the handlers
(`ScimEndpoint`). `members` and `provisioning`: the consequences of a changed group or user.
"""
