"""The HTTP runtime: connections, the application skeleton, access rules, validation, OpenAPI and its page."""
