"""Who is who: people log in and show a second factor, members come and go, agents get tokens.

A login: `login.Logins.login` counts failed attempts by account (`attempts`), compares the password in a thread
(`passwords`) and the second factor (`mfa_secrets`), starts a session (`session_repository`) and signs its access
token (`session_issuer`). From then on `chassis.auth.bearer` knows the bearer, like that of a personal access token.

What takes long is done outside of transactions and looked at once more within: whether the password that was compared
is still the user's (`users.still`), whether an invitation is still worth what it says (`invitations.find_open`).

Every change is in the audit of its organization, in the same transaction, and one of an account in that of every
organization of the user (`telling`); guards of this process see it at once, those of others within five seconds, or at
once where there is a Redis.
"""
