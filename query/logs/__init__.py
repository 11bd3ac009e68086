"""Counts log records: the keys that they have, the values of a key, and the number of records by group over time.

    handlers     the endpoints, and the keys, counted from the records; `query.search` has the pages of records
    counts       records by group and time

There is no roll-up of the keys of log records. So all modules here read the newest records of the window within the
scan limit (`query.analysis.windows`), and the response shows which part was read.
"""
