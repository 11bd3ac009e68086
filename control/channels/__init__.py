"""Where people are told: the notification channels of organizations and projects.

`channels.Channels` answers the API: a body is read, its config checked against the structure of its kind (`config`) and
its rules (`rules`), sealed and stored (`store`). No answer holds a config. `POST .../test` makes a real delivery and
sends it at once (`control.deliveries.sender`). A channel is switched off by people, by a receiver that is gone (410),
or after five days in which nothing came through; what still waits for it is cancelled then.
"""
