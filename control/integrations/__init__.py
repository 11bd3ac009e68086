"""Integrations: the systems that report to an organization by webhook, their secrets, and what they have delivered.

    tables, model, repository    an integration, its two secrets, and the deliveries that it has received
    integrations, deliveries     `/orgs/{orgSlug}/integrations`: create, change, rotate, delete, list, redeliver
    housekeeping                 deletes what is old

What arrives is received in `control.webhooks`.
"""
