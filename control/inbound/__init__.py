"""Receives requests that other systems send: webhook events, and commands and buttons of chats.

    integrations    the systems that report to an organization, and their secrets: `/orgs/{orgSlug}/integrations`
    webhooks        receives the webhook events of integrations: forges (commits, pull requests, releases) and trackers
    chat            receives commands and presses of buttons from chats
    routes          builds the routes of all three, and their background tasks

The docstring of `webhooks` follows one event of GitHub through its functions, and the docstring of `chat` one press of
a button. `webhooks.receiver` also reads the events of payments (`control.governance.billing.api`).
"""
