"""Integrations: the systems that report to an organization by webhook, their secrets, and what they have delivered.

    tables, model, repository    an integration, its two secrets, and the deliveries that it has received
    api                          `/orgs/{orgSlug}/integrations`: create, list, change, rotate, delete

What arrives is received in `control.inbound.webhooks`, which also shows deliveries and processes them again.
"""
