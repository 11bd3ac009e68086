"""What a request asks for: read from its query string or body, checked, and bound to what it means. Asks no store.

parameters   the query string of a list
window       from, to, hours -> a half-open window of time
instant      one point in time, in all the ways that people write it
filters      both encodings of the filters -> conditions of the tree
language     the encoding for people
patterns     what a regular expression may cost
"""
