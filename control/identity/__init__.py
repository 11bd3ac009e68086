"""Users, members, machine principals, and their credentials: passwords, second factors, sessions, access tokens.

A login, `POST /auth/login`, takes this path. The handler `login.api.Logins.login` calls `login.throttle`, which limits
failed attempts (429) and finds the accounts of the address. `login.authentication` finds the account with this
password, in a thread (`users.passwords`), and verifies the second factor (401). In one transaction the handler reads
the account again, refuses an organization that requires single sign-on (`users.session_store.check_password_login`,
403), starts a session and records it (`login.api.record_start`). `login.credentials.SessionIssuer` signs its access
token. From then on, `chassis.auth.credential_guards` authenticates the session like a personal access token.

organizations  organizations, projects, project keys, roles; revocation of credentials
users          accounts as stored, with passwords, sessions, one-time codes
members        members of an organization: users, agents and services, with their access tokens and invitations
login          how a session begins, continues and ends; acceptance of an invitation
account        the caller's own account: profile, password, second factor, verified address
sso, scim      logins through an identity provider; provisioning by directories over SCIM, stored in `directory`
chat_links     links between chat users and the principals that they act as

Each of the first five imports only the packages above it, `directory` and `chat_links`. `routes` builds all handlers.

Several accounts may have one e-mail address (`users.user_store`). An invitation creates an account that is confined to
its organization (`login.acceptance`), until it verifies the address with a secret that is mailed to the address
(`account.verification`, `mail`). At most one account has verified an address. Only this account can join further
organizations.

Slow work runs outside of transactions, and its results are checked again inside: whether the verified password is
still the user's (`user_store.reload_if_unchanged`), whether an invitation can still be accepted
(`invitations.find_open_invitation`).

Every change is recorded in the audit log of its organization in the same transaction. A change to a user account is
recorded in the logs of all the user's organizations (`account.api.record_change`). The guards of this process apply a
change at once. Guards of other processes apply it at once with Redis, otherwise within five seconds.
"""
