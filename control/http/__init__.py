"""What the handlers of control share: their context, pages, field types."""
