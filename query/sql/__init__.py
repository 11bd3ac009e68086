"""Statements to SQL: the only place that writes it. Pure: a statement in, text and parameters out.

The text is made of constants of this package; whatever a request brought is a bound parameter, `{name:Type}`. The
project is the first predicate of every statement. Each bound on a time comes with the same bound on
`toStartOfFiveMinutes(time)`: the sort key has both, and a bound on the time alone would bind to the later of them and
skip nothing.

    statements   one function per statement, but for those of
    attributes   which keys spans carry
    aggregate    figures of groups of spans, over time
    compare      pairs of key and value of two cohorts of spans
    errors       groups of error occurrences
    values       where in a row the value of a subject is
    conditions   a condition on an own field or on an attribute
    clauses      the project, the window, and how clauses make a statement
    bindings     the parameters of one statement, and the constants made of them
"""

from query.sql.bindings import Query
from query.sql.statements import emit, regex_probe
from query.sql.values import attribute_names

__all__ = ["Query", "attribute_names", "emit", "regex_probe"]
