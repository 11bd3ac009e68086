"""Plan and quota of an organization follow the subscription of its customer at the payment processor.

`api.Payments.receive_payment_event` verifies and reads an event (`events`), `history` says what it and all others of
the customer's subscriptions mean together, `store` has the rows. The operator names the customer of an organization.
"""
