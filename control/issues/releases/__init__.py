"""Releases and what they are made of: commits, the issues that these name, and proposals (pull or merge requests)."""
