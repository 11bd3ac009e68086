"""Plan and quota of an organization follow the subscription of its customer at the payment processor:
`/webhooks/payments` (specification 4.5).
"""
