"""How sessions begin, continue and end.

`api` logs in with a password or a one-time code, refreshes a session, moves it to another organization, and ends it.
`throttle`, `challenge` and `authentication` decide whether a login may begin. `acceptance` turns an invitation into a
membership. `credentials` has the tokens that a browser or a client gets for a session.
"""
