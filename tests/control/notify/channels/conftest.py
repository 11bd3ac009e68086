"""What tests of channels share."""

CHANNELS = "/orgs/acme/projects/web/notification-channels"
