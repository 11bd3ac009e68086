"""Webhook events (specification 4.5): endpoints without a token, whose requests are authenticated by their signatures.

A push to GitHub, `POST /webhooks/scm/github?hook=int_...`, goes down the lines of `api.IntegrationWebhooks._receive`:

    Hooks.by_id               the integration and its secrets                                              -> 404
    WebhookReceiver.admit     an address with too many failures at the integration is refused              -> 429
    WebhookReceiver.read      the body, as it was sent                                                     -> 413, 503
    GitHub.verify             the signature over these bytes; before it holds, nothing of them is parsed   -> 401
    RateLimits.take           the rate limit of the integration                                            -> 429
    Platform.read             calls `GitHub.parse`: what the event says, `CommitsPushed`, or why it cannot be read
    Inbox.process             the event waits in the `EventQueue`, in the turn of its organization         -> 503
    Inbox._apply              the task of the inbox takes a batch: one write transaction. An event that is known gets
                              its stored result. Others are recorded with their results.
                              So is an event that cannot be read: as failed                                -> 400
    forges.effects            `record_plain_pushes` or `record_forge_event`, which `WebhookSource` names: they call
                              `control.code.pushes`
    200                       the result: what the event did is committed

    api, receiver, signatures, platform, inbox
                      the functions above; `api.SOURCES` has every kind of integration, its platform, and what its
                      events do
    forges, trackers  platforms that send to an integration, and what their events do
    event_history     what integrations have sent (in the API: deliveries); it can be processed again
    task              deletes old events
    platform_events   events of chats and payments, which serve the whole deployment, are applied once, too

An organization has its turn in `Inbox`, its rate and its share of stored bodies (`chassis.limits.limiter`), and an
address its share of the bodies that are read at once, so one sender does not keep the others waiting.
"""
