"""Notification channels of organizations and projects.

`api.Channels` handles the API: it reads a body, decodes and validates the config by its kind (`config`), encrypts and
stores it (`store`). No response contains a config. `POST .../test` creates a real delivery and sends it at once
(`control.notify.deliveries.api`). A channel is disabled by a user, by a receiver that responds 410, or after
five days of failures without a success. Disabling a channel cancels its waiting deliveries.
"""
