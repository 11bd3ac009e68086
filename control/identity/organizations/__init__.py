"""Organizations, projects and project keys as stored, with the memberships and tokens that other packages build on.

`bootstrap` creates the first organization of an empty database. `revocation` ends an access token with everything that
was created with it. The routes are in `control.governance.tenants`.
"""
