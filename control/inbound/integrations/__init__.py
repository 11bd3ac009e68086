"""Integrations: the systems that report to an organization by webhook, and their secrets.

    tables    an integration, its two secrets, and the webhook events that it has sent (`inbound_deliveries`)
    store     statements on both; an event's body is stored compressed and encrypted
    api       `/orgs/{orgSlug}/integrations`: create, list, change, rotate the secret, delete

Events are received in `control.inbound.webhooks`, which also lists them and processes them again.
"""
