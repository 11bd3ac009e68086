"""Formats that processes agree on: OTLP to columns, ClickHouse tables, error codes, identity and key formats.

Pure functions between bytes and values: no I/O, clock, environment or logging. `otlp.codec` decodes export requests.
"""
