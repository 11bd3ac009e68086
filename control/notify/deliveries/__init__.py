"""Delivers messages: they are stored in an outbox and sent to their channels, with retries (see `control.notify`).

The other parts of control use `outbox`. `store` has the statements for rows of deliveries. `leases` decides which
deliveries are claimed next. `rules` decides what an attempt sends and what follows from a response. `sender` makes
attempts, `worker` finds due deliveries, `api` has the routes.
"""
