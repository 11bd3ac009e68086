"""What the tests of dashboards and alerts see in an expression."""

import pytest

from tests.deploy.promql import Named, named


def test_metrics_are_found_with_the_labels_that_are_asked_of_them() -> None:
    expression = 'sum by (a, le) (rate(x_bucket{b="c"}[5m])) / on (a, d) (y offset 1h > 0 unless z) or vector(1)'
    assert named(expression) == [
        Named("x_bucket", frozenset({"a", "b", "le"})),
        Named("y", frozenset({"a", "d"})),
        Named("z", frozenset({"a", "d"})),
    ]


@pytest.mark.parametrize("text", ["sum(x", "rate(x)", "x[5m", '{a="b"}', "unknown_function(x)"])
def test_what_is_no_expression_about_metrics_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        named(text)
