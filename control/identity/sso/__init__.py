"""Single sign-on through the identity provider of an organization: SAML 2.0 and OpenID Connect.

The path of a login (`login/`):

    start        `Start` stores the hash of a state, binds the login to the browser by a cookie, and sends the browser
                 to the provider (404 without an enabled connection; 429 for an address that does not finish logins)
    responses    `ProviderResponses` gets the provider's answer. SAML: the browser posts the response, which
                 `saml.response.verify_response` verifies. OpenID Connect: the browser returns with a code, which `oidc`
                 exchanges for a verified ID token
    mapping      `read_profile`: attributes or claims become address, name and groups. `is_mfa_asserted`: whether they
                 assert a second factor
    completion   `Completion.complete`: one transaction uses the login and the assertion. `accounts` finds, links or
                 creates the account and makes it a member with its role. The response is the session (`format=json`) or
                 a one-time code (303 to `/sso/complete`)
    handoff      `Handoffs`: the code becomes the session. A page does this in a browser

Each failure raises `refusal.LoginRefused` with a reason. `Completion.refuse` writes the reason to the audit log of the
organization, and the browser gets the same 400 for every reason (`browser`). Success means that the provider has
identified the user. `identities` stores the user's account, by connection and subject.

Administrators configure `connections` (`bodies` checks a change, `connection_store` stores it), `options`, `domains`
and `identities`. Only users may change them (`routes.only_for_users`). `control.identity.users.session_store` decides
at a login whether a password is still accepted. `routes` builds all routes, and the task that deletes expired rows.
"""
