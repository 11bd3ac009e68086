"""The cost of explore: each endpoint over a socket, beside the best SQL by hand on the same tables, and beside what the
tables of the contrib exporter and of SigNoz need for the same answer.

    data      the same spans, once, in all three layouts of one embedded engine
    layouts   how each is filled; sql/*_tables.sql are their tables
    shapes    what is asked: the request, and what of its answer must be equal
    sql       sluice.sql, contrib.sql and signoz.sql hold the statements by the names of the shapes
    served    the query service on a socket of this process, and the engine beside it
    measure   contestants in turn, each with windows of its own
"""
