"""Notification channels of organizations and projects.

`api.Channels` handles the API: it reads a body, decodes the config by its kind (`config`), validates it against
the rules (`validation`), encrypts and stores it (`repository`). No response contains a config. `POST .../test` creates
a real delivery and sends it at once (`control.notify.deliveries.sender`). A channel is disabled by a user, by a receiver that
responds 410, or after five days of failures without a success; this cancels its waiting deliveries.
"""
