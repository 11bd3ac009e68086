"""Users, members, machine principals, and their credentials: passwords, second factors, sessions, access tokens.

A login: `login.Logins.login` limits failed attempts (`login_throttle`), finds the account by its password
(`authentication`, in a thread: `passwords`), verifies the second factor (`mfa_secrets`), refuses an organization that
requires single sign-on (`enforcement`), starts a session (`session_repository`) and signs its access token
(`session_issuer`). From then on `chassis.auth.bearer` authenticates the session like a personal access token. Logins
through an identity provider are in `control.identity.sso`.

Several accounts may have one e-mail address (`user_repository`). An invitation (`invitations`) creates one that is
confined to its organization (`acceptance`), until it verifies the address with a secret that is mailed to it
(`verification`, `mail`). At most one account has verified an address; only that one joins further organizations.

Slow work runs outside of transactions, and its premises are checked again inside: whether the verified password is
still the user's (`user_repository.reload_if_unchanged`), whether an invitation can still be accepted
(`invitation_repository.find_open`).

Every change is recorded in the audit log of its organization in the same transaction; a change to a user account in
those of all the user's organizations (`account_audit`). The guards of this process apply it at once; those of other
processes at once with Redis, else within five seconds.
"""
