"""Users, members, machine principals, and their credentials: passwords, second factors, sessions, access tokens.

A login: `login.Logins.login` limits failed attempts per account (`login_throttle`), verifies the password in a thread
(`passwords`) and the second factor (`mfa_secrets`), starts a session (`session_repository`) and signs its access token
(`session_issuer`). From then on `chassis.auth.bearer` authenticates the session like a personal access token.

Slow work runs outside of transactions, and its premises are checked again inside: whether the verified password is
still the user's (`user_repository.reload_if_unchanged`), whether an invitation can still be accepted
(`invitation_repository.find_open`).

Every change is recorded in the audit log of its organization in the same transaction; a change to a user account in
those of all the user's organizations (`account_audit`). The guards of this process apply it at once; those of other
processes at once with Redis, else within five seconds.
"""
