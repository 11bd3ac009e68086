"""Webhook events (specification 4.5): routes without a token, whose requests are authenticated by their signatures.

A push to GitHub, `POST /webhooks/scm/github?hook=int_...`, passes these functions, which
`api.IntegrationWebhooks._receive` calls:

    WebhookEndpoints.by_id    finds the integration and its secrets                                        -> 404
    WebhookReceiver.admit     refuses an address with too many failures at the integration                 -> 429
    WebhookReceiver.read      reads the body, as it was sent                                               -> 413, 503
    GitHub.verify             verifies the signature over these bytes, of which nothing was parsed before  -> 401
    RateLimits.take           applies the rate limit of the integration                                    -> 429
    Platform.read             calls `GitHub.parse`, which returns `CommitsPushed` or the fault of the body
    Inbox.process             puts the event into the `EventQueue`, where organizations take turns         -> 503
    Inbox._apply              takes a batch of events in the task of the inbox: one write transaction. A known event
                              gets its stored result. Other events are applied and stored with their results.
                              An event that cannot be parsed is stored as failed                         -> 400
    forges.effects            `apply_plain_pushes` or `apply_forge_event`, which `WebhookSource` names, call
                              `control.code.pushes`
    200                       the result: the effects of the event are committed

    api, receiver, signatures, platform, inbox
                      the functions above; `api.SOURCES` has every kind of integration, its platform, and the effects
                      of its events
    forges, trackers  platforms that send to an integration, and the effects of their events
    event_history     the events that integrations have sent (in the API: deliveries), which can be processed again
    task              deletes old events
    platform_events   applies events of chats and payments, which serve the whole deployment, once, too

`Inbox` serves organizations in turn. Each organization has a rate limit and a limit of stored bodies
(`chassis.limits.limiter`), and each address a limit of bodies that are read at once. One sender therefore does not keep
the others waiting.
"""
