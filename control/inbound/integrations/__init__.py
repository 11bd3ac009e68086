"""Integrations: the systems that report to an organization by webhook, and their secrets.

    tables    an integration, its two secrets, and the webhook events that it has sent (`inbound_deliveries`)
    store     statements for both; the body of an event is stored compressed and encrypted
    api       `/orgs/{orgSlug}/integrations`: create, list, change, rotate the secret, delete

`control.inbound.webhooks` receives events, lists them, and processes them again.
"""
