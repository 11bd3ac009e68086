"""Shared code of the handlers of control: handler context, field types, pages and filters of lists."""
