"""A login through an identity provider, request by request.

`start` sends the browser to the provider. `responses` gets the provider's answer, with the routes `acs` (SAML) and
`callback` (OpenID Connect), and verifies it. `completion` turns it into a member and a session, or into a one-time code
that `handoff` exchanges. All use `browser` for cookies and errors, `return_path` for the address that the user wanted
to go to, and `login_store` for values that are used once.
"""
