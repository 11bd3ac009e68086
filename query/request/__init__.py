"""Parses and validates requests: resolves a query string or body into conditions, without reading the store.

parameters      the query string of a list, with its time range
bodies          JSON bodies
filters         both encodings of the filters -> conditions of `query.statements`
filter_syntax   the text encoding
predicates      the test that a filter applies to its subject
numbers         numbers in filters, and their stored spellings
regex_cost      bounds the cost of a regular expression
"""
