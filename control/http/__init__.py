"""What the handlers of control share: handler context, field types, pages and filters of lists."""
