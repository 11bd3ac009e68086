"""Parses and validates requests: reads the query string or body and resolves it into conditions. Never reads the store.

parameters      the query string of a list, with its time range
bodies          JSON bodies
filters         both encodings of the filters -> conditions of `query.statements`
filter_syntax   the text encoding
predicates      what a filter tests of its subject
numbers         numbers in filters, and their stored spellings
regex_cost      bounds the cost of a regular expression
"""
