"""Inbound webhooks (specification 4.5): doors without a token, each judged by what it refuses.

A request, for example `POST /webhooks/scm/github?hook=int_...`:

    Hooks.by_id                the integration and its secrets                                              -> 404
    WebhookReceiver.admit      an address with too many failures at the integration is refused              -> 429
    WebhookReceiver.read       the body, as it was sent                                                     -> 413, 503
    Platform.verify            the signature over these bytes; before it holds, nothing of them is parsed   -> 401
    IntegrationReceiver        the rate limit of the integration                                            -> 429
    Platform.parse             what the event says                                                          -> 400
    Inbox.process              duplicates get the stored result; else effects and result in one transaction
    200                        the result

    signatures              how every platform signs
    scm, trackers           platforms that send to an integration, and what their events do
    deliveries              what integrations have delivered; it can be processed again
    platform_events         events of chats and payments, which serve the whole deployment, are applied once, too
"""
