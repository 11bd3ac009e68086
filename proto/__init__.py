"""Formats that processes agree on: OTLP to columns, ClickHouse tables, error codes, identity and key formats.

All functions are pure: they use no I/O, clock, environment or logging. `otlp.codec` decodes export requests.
"""
