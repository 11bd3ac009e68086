"""Delivers messages: stored in an outbox and sent to their channels, with retries (see `control.notify`).

`outbox` is what the rest of control uses. `store` has the rows, `leases` which of them are claimed next, `rules` what
an attempt sends and what follows from a response. `sender` makes attempts, `worker` finds what is due, `api` has the
routes.
"""
