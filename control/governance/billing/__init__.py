"""Plan and quota of an organization follow the subscription of its customer at the payment processor.

`api.Payments.receive_payment_event` verifies and parses an event (`events`). `history` computes the current
subscription from this event and all others of the customer's subscriptions. `store` has the rows. The operator names
the customer of an organization.
"""
