"""Saved views: addresses of the page that people keep under a name, for themselves or for everybody in the project."""
