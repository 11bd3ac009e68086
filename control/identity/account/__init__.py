"""The caller's own account, in a session: profile, organizations and password (`api`), second factor (`mfa`), and the
verification of the e-mail address (`verification`). A change is recorded in every organization of the user.
"""
