"""Notifications: where they go (`channels`) and how they get there (`deliveries`)."""
