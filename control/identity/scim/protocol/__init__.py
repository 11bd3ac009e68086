"""What a directory requests: users, groups, discovery. It is imported with the first request of a directory, because
`library` is large (`control.identity.scim.routes`).

`users` and `groups` are the handlers, `handlers` has those of discovery and builds all. `endpoint`: what they share.
`listing` and `filters`: pages of lists, as SQL. `resources`: what is stored becomes the response. `members` and
`provisioning`: what follows from a change of a group or a user.
"""
