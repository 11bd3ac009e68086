"""A login through an identity provider, request by request.

`start` sends the browser to the provider. `acs` (SAML) or `callback` (OpenID Connect) gets what the provider says and
verifies it. `completion` turns it into a member and a session, or a one-time code that `handoff` exchanges. Each uses
`browser` for cookies and errors, `return_path` for where the user wanted to go, and `login_store` for what is used
once.
"""
