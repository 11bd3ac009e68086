"""How sessions begin, continue and end.

`api` logs in with a password or a one-time code; `throttle`, `challenge` and `authentication` decide whether it may.
`acceptance` makes an account of an invitation. `sessions` refreshes a session, moves it to another organization, and
ends it. `credentials` has the tokens that a browser or a client gets for a session.
"""
