"""The caller's own account, in a session: profile, organizations and password (`api`), second factor (`mfa`), and the
proof that the e-mail address is the caller's (`verification`). A change is recorded in every organization of the user.
"""
