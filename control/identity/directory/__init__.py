"""The users and groups that an organization's directory has provisioned, and the members of each group.

`control.identity.scim` writes the data as the directory sends it. `control.identity.sso` reads it to find the user of a
login.
`tables` has the schema. `user_store` and `group_store` read and write it, one organization at a time.
"""
