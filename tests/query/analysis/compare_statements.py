"""A statement of each shape that a comparison makes; `tests.query.test_sql` holds what is true of all statements."""

from typing import Final

from query.fields import SPANS
from query.statements import (
    Attribute,
    Cohort,
    CohortSize,
    Condition,
    ConditionCounts,
    ExcludedSpans,
    FieldPairs,
    FrequentPairs,
    KeyCardinality,
    KeyCounts,
    KeyPairs,
    ListPairs,
    PairsByHash,
    Statement,
    TextIn,
)
from query.statements.window import Window
from query.timestamps import HOUR

NOW: Final = 1_795_188_000_123_456_789
SERVER: Final = Condition(SPANS.fields["kind"], TextIn(("SERVER",)))
SPIKE: Final = Cohort((Window(NOW - HOUR, NOW),), (SERVER,))
SELECTED: Final = Cohort(
    (Window(NOW - 3 * HOUR, NOW),),
    excluded=ExcludedSpans(Window(NOW - HOUR, NOW), (SERVER, Condition(Attribute("k"), TextIn(("x",))))),
)
BASELINE: Final = Cohort((Window(NOW - 3 * HOUR, NOW - HOUR), Window(NOW, NOW + HOUR)))
SAMPLE: Final = Cohort((Window(NOW - HOUR, NOW),), one_in=4)
SUBJECTS: Final = (SPANS.fields["durationMs"], SPANS.fields["release"], Attribute("host"))

SHAPES: Final[dict[str, Statement]] = {
    "cohort_size": CohortSize(project_id=7, cohort=BASELINE),
    "cohort_size_of_sample": CohortSize(project_id=7, cohort=SAMPLE),
    "cohort_size_without_spike": CohortSize(project_id=7, existing_attributes=frozenset({"k"}), cohort=SELECTED),
    "field_pairs": FieldPairs(project_id=7, cohort=SPIKE, selection=FrequentPairs(5)),
    "field_pairs_of_baseline": FieldPairs(project_id=7, cohort=BASELINE, selection=PairsByHash((2**64 - 1, 1))),
    "list_pairs": ListPairs(project_id=7, cohort=SPIKE, selection=FrequentPairs(5)),
    "list_pairs_of_baseline": ListPairs(project_id=7, cohort=BASELINE, selection=PairsByHash(())),
    "key_pairs": KeyPairs(project_id=7, cohort=SPIKE, sources=("http.route", "'"), min_spans=5),
    "key_pairs_of_subjects": KeyPairs(project_id=7, cohort=SPIKE, sources=SUBJECTS, min_spans=5),
    "key_counts": KeyCounts(project_id=7, cohort=BASELINE, sources=("http.route", "'"), hashes=(2**64 - 1, 1)),
    "key_counts_apart": KeyCounts(project_id=7, cohort=BASELINE, sources=("a", "'"), hashes=(1,), read_per_key=True),
    "key_counts_of_subjects": KeyCounts(project_id=7, cohort=BASELINE, sources=SUBJECTS, hashes=(1,)),
    "key_values": KeyCardinality(project_id=7, cohort=BASELINE, sources=("http.status_code",)),
    "key_values_apart": KeyCardinality(project_id=7, cohort=BASELINE, sources=("a", "'"), read_per_key=True),
    "condition_counts": ConditionCounts(
        project_id=7,
        cohort=BASELINE,
        conditions=(
            Condition(Attribute("retries"), TextIn(("0",), ("-0",))),
            Condition(Attribute("k"), TextIn(("x",))),
        ),
    ),
}
