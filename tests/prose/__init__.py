"""The prose of the project is plain English: `python -m tests.prose`, which `make lint` runs, finds what is not.

texts           what is prose in Markdown and in Python: docstrings, help, descriptions of settings, log lines, messages
rules.toml      habits that readers stumble over, what to write instead, and sentences that are right all the same
__main__        finds them, and counts how frequent some are in README and docs/
"""
