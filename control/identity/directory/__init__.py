"""What an organization's directory has provisioned: people, groups, and who is in which group.

`control.identity.scim` writes it as the directory says; `control.identity.sso` reads it to recognize who logs in.
`tables` has the schema. `user_store` and `group_store` read and write it, one organization at a time.
"""
