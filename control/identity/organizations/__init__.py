"""Organizations, projects and project keys, with the memberships and tokens that others build on, as stored.

`bootstrap` creates the first ones of an empty database. `revocation` ends an access token with everything that was
created with it. Their routes are in `control.governance.tenants`.
"""
