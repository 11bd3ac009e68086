"""Log records counted: which keys they carry, the values of a key, and their number by group over time.

    handlers     the endpoints, and the keys, counted in the records themselves; pages of records are those of
                 `query.search`
    counts       records by group and time

Log records have no roll-up of keys. Everything here reads the newest records of the window, at most as many as the scan
limit permits (`query.analysis.windows`), and says so.
"""
