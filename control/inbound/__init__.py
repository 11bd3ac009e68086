"""What other systems send: webhooks of forges and trackers (`webhooks`, for `integrations`) and presses of buttons in chats (`chat`)."""
