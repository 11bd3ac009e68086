"""Warehouses behind one interface: the rows of a file are loaded into the table of their stream, once.

loader      the interface
snowflake   COPY from an external stage, by the SQL API
bigquery    load jobs, by the REST API
"""
