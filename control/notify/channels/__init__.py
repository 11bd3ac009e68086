"""Notification channels of organizations and projects.

`api.Channels` handles the API: it reads a body, decodes and validates the config by its kind (`config`), encrypts and
stores it (`store`). No response contains a config. `POST .../test` creates a real delivery and sends it at once
(`control.notify.deliveries.api`). A user can disable a channel. Sluice disables a channel whose receiver responds 410,
or fails for five days without a success. Disabling a channel cancels its waiting deliveries.
"""
