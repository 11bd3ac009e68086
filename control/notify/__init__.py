"""Notifications: a message about an event, sent to the channels of a project or of the whole organization.

    `deliveries.outbox`  in the transaction of the event: stores one waiting delivery per channel, up to a limit
    Sender.send_now      after the commit, for a request that needs approvals: the first attempts, within a time budget
    Worker.poll_once     about once a second, in every process: claims due deliveries under a lease (`leases.claim_due`)
    Sender.start         decrypts the config, formats the message (`platforms`), posts it through the guarded egress
    `deliveries.rules`   decides by the response: delivered, to be retried with a growing delay, or failed for good
    `deliveries.store`   stores the state after the attempt: DONE, READY, DEAD or CANCELLED

`channels` has the destinations of messages, `deliveries` all of the steps above. The success of a request that notifies
promises that its deliveries are stored. Each delivery is sent at least once under the same id, unless it ends as DEAD
or CANCELLED, which `GET /orgs/{orgSlug}/deliveries` shows.
"""
