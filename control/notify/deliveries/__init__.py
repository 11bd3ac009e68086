"""Delivers notifications: messages are stored in an outbox and sent to their channels, with retries.

`outbox.enqueue` writes one delivery per channel in the transaction of the event that it reports, so either both are
stored or neither is. For a request that needs approvals, `sender.Sender.send_now` makes the first attempts after the
commit, within a time budget. All other deliveries, among them those of decisions and expiries, are sent by
`worker.Worker` within about a second. It claims rows under a lease (`leases`), retries with growing delays (`outcome`),
and ends each as DONE, DEAD or CANCELLED. `platforms` converts a message into the platform's format;
`platforms.transports.send` sends it through the guarded egress.

A 2xx of a request that notifies promises that its deliveries are stored. Each is delivered at least once, unless it
ends as DEAD or CANCELLED, which `deliveries` shows. Its id is the same in every attempt.
"""
