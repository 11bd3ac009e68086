"""Single sign-on through the identity provider of an organization: SAML 2.0 and OpenID Connect.

A login, step by step (`login/`):

    start        `Start` stores the hash of a state, binds the login to the browser by a cookie, and sends the browser
                 to the provider (404 without an enabled connection; 429 for an address that finishes no login)
    responses    `ProviderResponses` gets what the provider answers. SAML: the browser posts the response, which
                 `saml.response.verify_response` verifies. OpenID Connect: the browser returns with a code, which `oidc`
                 exchanges for a verified ID token
    mapping      `read_profile`: attributes or claims become address, name and groups; `is_mfa_asserted`: whether they
                 assert a second factor
    completion   `Completion.complete`: one transaction in which login and assertion are used, `accounts` finds, links
                 or creates the account and admits it with its role; then the session (`format=json`) or a one-time
                 code (303 to `/sso/complete`)
    handoff      `Handoffs`: the code becomes the session; a page does that in a browser

What fails on the way raises `refusal.LoginRefused` with a reason. `Completion.refuse` writes it to the audit log of the
organization, and the browser gets the same 400 for every reason (`browser`). Success means that the provider says who
the user is. Which account the user has is stored in `identities`, by connection and subject.

Administrators configure `connections` (`bodies` checks a change, `connection_store` keeps it), `options`, `domains` and
`identities`. Only users may change them (`routes.only_for_users`). `control.identity.users.session_store` decides at a
login whether a password is still a way in. `routes` builds all of it, with the task that deletes what has expired.
"""
