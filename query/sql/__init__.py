"""Compiles statements to SQL; no other package writes SQL. This package does no I/O: it turns a statement into text and
parameters.

The text consists of constants of this package; every value from a request is a bound parameter, `{name:Type}`. The
project is the first predicate of every statement. Each bound on a time comes with the same bound on
`toStartOfFiveMinutes(time)`: the sort key has both, and a bound on the time alone would apply to the later of the two
columns and skip nothing.

    statements            `emit`, and one function per statement, except for the following:
    attributes            the attribute keys of spans
    aggregate             aggregates of groups of spans, over time
    figures               several figures of groups of spans, over time
    heatmap               spans by columns of time and rows of a number
    service_map           the calls between services
    ranked_spans          the longest spans
    aggregate_functions   the SQL of each aggregate function
    compare               pairs of key and value of two cohorts of spans
    error_groups          groups of error occurrences
    values                the location of a subject's value in a row
    predicates            a condition on a built-in field or on an attribute
    clauses               the project, the window, and the layout of clauses
    bindings              the parameters of one statement, and the constants made of them
"""

from query.sql.bindings import Query
from query.sql.predicates import attribute_names
from query.sql.statements import emit, regex_probe

__all__ = ["Query", "attribute_names", "emit", "regex_probe"]
