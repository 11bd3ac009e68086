"""Single sign-on through the identity provider of an organization: SAML 2.0 and OpenID Connect.

A login, step by step:

    start            `GET /sso/{saml|oidc}/{orgSlug}/start`: stores the hash of a state, binds the login to the
                     browser by a cookie, and sends the browser to the provider (404 without an enabled connection)
    acs              SAML: the browser posts the provider's response; `saml.response.verify_response` verifies it
    callback         OpenID Connect: the browser returns with a code, which `oidc` exchanges for a verified ID token
    mapping          attributes or claims become address, name and role; `mfa`: whether they assert a second factor
    completion       one transaction: login and assertion are used, `accounts` finds, links or creates the account and
                     sets the role; then the session (`format=json`) or a one-time code (303 to `/sso/complete`)
    handoff          `POST /sso/handoff`: the code becomes the session; `complete_page` does that in a browser

Whatever fails on the way raises `refusal.LoginRefused` with a reason. `Completion.refuse` writes it to the audit log of
the organization, and the browser gets the same 400 for every reason (`browser`). Success means that the provider says
who the user is; which account that is, `identity_repository` alone knows, by connection and subject.

What administrators see and change: `connections`, `settings`, `domains` (through `dns`), `identities`, `dry_run`. What
users do: `links`. Whether a password is still a way in is decided at its login, by `control.identity.users.session_store`.
`routes` builds all of it; `*_repository` and `tables` store it, and `housekeeping` deletes what has expired.
"""
