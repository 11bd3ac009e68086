"""What the handlers of control share: handler context, paging, field types."""
