"""Differences between the spans of a spike and a baseline: POST .../explore/spans/compare (specification 4.2).

plan                   body -> two windows, filters, keys, limits; reports all faults at once     -> 400
read
  read_cohort_sizes    spans of both cohorts; above the scan limit both are sampled at one rate
  default_pairs        values that enough spans of the spike have, counted in both cohorts;
                       `requested_pairs` if the request names keys
  score                shares and their statistics; values that chance explains are dropped
SpanComparison
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgspec

from chassis.errors import BadRequest
from chassis.http.validation import Issues, decode_with_placeholders
from query.analysis.candidate_pairs import default_pairs, requested_pairs
from query.analysis.comparison import (
    MIN_Z,
    CohortSizes,
    ComparedPairs,
    Comparison,
    PairCounts,
    Score,
    Totals,
    default_min_spike_count,
    read_cohort_sizes,
    score,
)
from query.read_store import ReadStore
from query.request.filters import (
    PLACEHOLDERS,
    Filter,
    FilterInputs,
    FiltersInBody,
    KeyText,
    check_key,
    conditions,
    filters_of_body,
)
from query.request.parameters import TimeInput, time_range
from query.rows import SPANS
from query.statements import Cohort, Condition, ExcludedSpans, Window
from query.values import Count, Share, Timestamp, TimestampError, format_timestamp, parse_timestamp

MAX_COMPARE_KEYS: Final = 50
DEFAULT_FINDINGS: Final = 50
MAX_FINDINGS: Final = 200
MAX_MIN_SPIKE_COUNT: Final = 1_000_000
FILTERS_PATH: Final = "body.filters"
_SPIKE_FILTERS_PATH: Final = "body.spike.filters"
_BASELINE_FILTERS_PATH: Final = "body.baseline.filters"
_MAX_NAMED_IDENTIFIERS: Final = 3


class CompareWindow(msgspec.Struct, forbid_unknown_fields=True):
    """A half-open time window. `filters`: apply only to this side, in addition to the filters of both sides."""

    from_: TimeInput = msgspec.field(name="from")
    to: TimeInput
    filters: FilterInputs | None = None


class CompareRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The windows to compare. `keys`: the keys to compare by. If it is empty or null, all keys of the spans are
    compared."""

    spike: CompareWindow
    baseline: CompareWindow
    filters: FiltersInBody | None = None
    keys: Annotated[list[KeyText], msgspec.Meta(max_length=MAX_COMPARE_KEYS)] | None = None
    min_spike_count: Annotated[int, msgspec.Meta(ge=1, le=MAX_MIN_SPIKE_COUNT)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_FINDINGS)] | None = None


class Side(msgspec.Struct, rename="camel"):
    """A requested window, and the number of spans counted in it."""

    from_: Timestamp = msgspec.field(name="from")
    to: Timestamp
    total: Count


class Finding(msgspec.Struct, rename="camel"):
    """A value that is over-represented in the spike. `lift` is null if no span of the baseline has the value."""

    key: str
    value: str
    spike_count: Count
    baseline_count: Count
    spike_share: Share
    baseline_share: Share
    expected_count: float
    surplus: float
    lift: float | None
    contribution: float


class SpanComparison(msgspec.Struct, rename="camel"):
    """The values that are over-represented in the spike, the most significant first. `disclaimer` states the limits of
    the comparison.
    """

    # Specification 4.2.

    spike: Side
    baseline: Side
    attributes: list[Finding]
    truncated: bool
    pairs_considered: Count
    min_spike_count: Count
    disclaimer: str


@dataclass(frozen=True, slots=True)
class SideFilters:
    """Filters of one side, as written and resolved."""

    filters: tuple[Filter, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """A validated request. `filters` and `conditions` apply to both sides; a side's own filters apply only to this
    side."""

    spike: Window
    baseline: Window
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    spike_side: "SideFilters"
    baseline_side: "SideFilters"
    keys: tuple[str, ...]
    min_spike_count: int | None
    limit: int
    now_ns: int

    @property
    def all_filters(self) -> tuple[tuple[str, tuple[Filter, ...]], ...]:
        """The three lists of filters, each with its path."""
        spike, baseline = self.spike_side.filters, self.baseline_side.filters
        return ((FILTERS_PATH, self.filters), (_SPIKE_FILTERS_PATH, spike), (_BASELINE_FILTERS_PATH, baseline))

    @property
    def spike_cohort(self) -> Cohort:
        """The spans of the spike."""
        return Cohort((self.spike,), self.conditions + self.spike_side.conditions)

    @property
    def baseline_cohort(self) -> Cohort | None:
        """The spans of the baseline that are not in the spike; None if its window is within the spike's window and the
        spike has no filters of its own.
        """
        conditions = self.conditions + self.baseline_side.conditions
        if not self.spike_side.conditions:
            windows = self.baseline_without_spike
            return Cohort(windows, conditions) if windows else None
        common = self.baseline.intersect(self.spike)
        excluded = ExcludedSpans(common, self.spike_side.conditions) if common is not None else None
        return Cohort((self.baseline,), conditions, excluded=excluded)

    @property
    def baseline_without_spike(self) -> tuple[Window, ...]:
        """The baseline without the spike: the windows before and after it."""
        common = self.baseline.intersect(self.spike)
        if common is None:
            return (self.baseline,)
        ends = ((self.baseline.from_ns, common.from_ns), (common.to_ns, self.baseline.to_ns))
        return tuple(Window(start, end) for start, end in ends if start < end)


def plan(raw: bytes, now_ns: int) -> ComparePlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    placeholder = {"from": "-1h", "to": "now"}
    placeholders = {"spike": placeholder, "baseline": placeholder} | PLACEHOLDERS
    request = decode_with_placeholders(CompareRequest, raw, placeholders, issues)
    if request is None:
        issues.raise_if_any("The request body is not valid.")
        raise BadRequest("The request body is not valid.")
    if len(issues):
        _check_ends(raw, now_ns, issues)
    planned = _build_plan(request, now_ns, issues)
    issues.raise_if_any("The request body is not valid.")
    if planned is None:
        raise TypeError("a missing window must have an issue")
    return planned


async def read(store: ReadStore, project_id: int, plan: ComparePlan, max_scan_rows: int) -> bytes:
    """Run the comparison: its result as JSON. Raises BadRequest for a pattern that does not compile; StoreErrors."""
    for path, filters in plan.all_filters:
        await store.validate_regexes(filters, path)
    spike, baseline = plan.spike_cohort, plan.baseline_cohort
    sizes = await read_cohort_sizes(store, project_id, spike, baseline, max_scan_rows)
    min_spike_count = plan.min_spike_count or default_min_spike_count(sizes.spike)
    if not sizes.spike or not sizes.baseline or baseline is None:
        return _encode(plan, sizes, min_spike_count, ComparedPairs())
    comparison = Comparison(
        store=store,
        project_id=project_id,
        spike=replace(spike, one_in=sizes.one_in),
        baseline=replace(baseline, one_in=sizes.one_in),
        spike_spans=sizes.spike,
        baseline_spans=sizes.baseline,
        min_spans=min_spike_count,
        now_ns=plan.now_ns,
        existing_attributes=sizes.existing_attributes,
    )
    found = await (requested_pairs(comparison, plan.keys) if plan.keys else default_pairs(comparison))
    return _encode(plan, sizes.raised_to_counts(found), min_spike_count, found)


def _build_plan(request: CompareRequest, now_ns: int, issues: Issues) -> ComparePlan | None:
    """The request resolved at `now_ns`; None after an issue with a window."""
    spike, baseline = (
        _window(side, f"body.{name}", now_ns, issues)
        for name, side in (("spike", request.spike), ("baseline", request.baseline))
    )
    filters = _filters(request.filters, FILTERS_PATH, now_ns, issues)
    spike_side = _filters(request.spike.filters, _SPIKE_FILTERS_PATH, now_ns, issues)
    baseline_side = _filters(request.baseline.filters, _BASELINE_FILTERS_PATH, now_ns, issues)
    if spike is not None and spike == baseline and set(spike_side.conditions) == set(baseline_side.conditions):
        issues.add("body.baseline", "Must have another window or other filters than the spike.", "equal")
    keys = tuple(dict.fromkeys(request.keys or ()))
    for n, key in enumerate(request.keys or ()):
        check_key(key, f"body.keys[{n}]", issues)
    if spike is None or baseline is None:
        return None
    limit = request.limit or DEFAULT_FINDINGS
    return ComparePlan(
        spike=spike,
        baseline=baseline,
        filters=filters.filters,
        conditions=filters.conditions,
        spike_side=spike_side,
        baseline_side=baseline_side,
        keys=keys,
        min_spike_count=request.min_spike_count,
        limit=limit,
        now_ns=now_ns,
    )


def _filters(inputs: FiltersInBody | None, path: str, now_ns: int, issues: Issues) -> SideFilters:
    filters = filters_of_body(inputs, path, issues)
    return SideFilters(filters, conditions(filters, SPANS, now_ns, path, issues))


def _check_ends(raw: bytes, now_ns: int, issues: Issues) -> None:
    """Record errors of one end of a window whose other end already has an issue."""
    body = msgspec.json.decode(raw)
    for side in ("spike", "baseline"):
        fields = body.get(side)
        if not issues.has_issue_under(f"body.{side}") or not isinstance(fields, dict):
            continue
        for end in ("from", "to"):
            text = fields.get(end)
            if isinstance(text, str) and not issues.has_issue_under(f"body.{side}.{end}"):
                _check_timestamp(text, now_ns, f"body.{side}.{end}", issues)


def _check_timestamp(text: str, now_ns: int, path: str, issues: Issues) -> None:
    try:
        parse_timestamp(text, now_ns)
    except TimestampError as error:
        issues.add(path, str(error), "format")


def _window(window: CompareWindow, path: str, now_ns: int, issues: Issues) -> Window | None:
    """The window; None if it has an issue."""
    if issues.has_issue_under(path):  # a wrong type: then the value is a placeholder
        return None
    return time_range(window.from_, window.to).resolve(now_ns, path, issues)


def _encode(plan: ComparePlan, sizes: CohortSizes, min_spike_count: int, compared: ComparedPairs) -> bytes:
    ranked = _rank_pairs(sizes, [each for each in compared.pairs if each.spike >= min_spike_count])
    comparison = SpanComparison(
        spike=_side(plan.spike, sizes.spike),
        baseline=_side(plan.baseline, sizes.baseline),
        attributes=[_finding(pair, pair_score) for pair, pair_score in ranked[: plan.limit]],
        truncated=sizes.one_in > 1 or compared.truncated or len(ranked) > plan.limit,
        pairs_considered=len(compared.pairs),
        min_spike_count=min_spike_count,
        disclaimer=_disclaimer(plan, sizes, compared),
    )
    return msgspec.json.encode(comparison)


def _side(window: Window, total: int) -> Side:
    return Side(format_timestamp(window.from_ns), format_timestamp(window.to_ns), total)


def _rank_pairs(sizes: CohortSizes, pairs: list[PairCounts]) -> list[tuple[PairCounts, Score]]:
    """Pairs that chance does not explain, the most over-represented first."""
    if not pairs:
        return []
    totals = Totals(sizes.spike, sizes.baseline)
    scored = [(pair, score(totals, pair.spike, pair.baseline)) for pair in pairs]
    scored = [each for each in scored if each[1].z > MIN_Z]
    return sorted(scored, key=lambda each: (*each[1].rank, each[0].key, each[0].value))


def _finding(pair: PairCounts, pair_score: Score) -> Finding:
    return Finding(
        key=pair.key,
        value=pair.value,
        spike_count=pair.spike,
        baseline_count=pair.baseline,
        spike_share=pair_score.spike_share,
        baseline_share=pair_score.baseline_share,
        expected_count=pair_score.expected,
        surplus=pair_score.surplus,
        lift=pair_score.lift,
        contribution=pair_score.contribution,
    )


def _disclaimer(plan: ComparePlan, sizes: CohortSizes, tested: ComparedPairs) -> str:
    """States what was compared, at what rate, and what the comparison cannot show."""
    filters = f" All these spans match {_count_filters(plan.filters)}." if plan.filters else ""
    of_spike = _that_match(plan.spike_side.filters, "spike")
    of_baseline = _that_match(plan.baseline_side.filters, "baseline")
    compared = (
        f"The spike has {sizes.spike} spans from {_format_window(plan.spike)}{of_spike}. The baseline has "
        f"{sizes.baseline} spans from {_format_window(plan.baseline)}{of_baseline}.{filters} For each pair of a key "
        f"and a value, its share of the spike is compared with its share of the baseline. Shares do not show whether "
        f"the number of spans changed."
    )
    sentences = [compared]
    if plan.baseline.intersect(plan.spike) is not None:
        sentences.append(
            "Spans of the spike are not counted in the baseline."
            if plan.spike_side.filters
            else "Spans in both windows count only for the spike."
        )
    if not sizes.spike or not sizes.baseline:
        sentences.append(f"The {'baseline' if sizes.spike else 'spike'} has no spans, so there is nothing to compare.")
    else:
        sentences.append(
            f"{len(tested.pairs)} key-value pairs were tested. The list has the pairs with a significant difference (z "
            f"> 4). Some of these differences may still be due to chance."
        )
    if tested.identifiers:
        sentences.append(_omitted_keys_sentence(sorted(tested.identifiers)))
    if sizes.one_in > 1:
        sentences.append(
            f"Spike and baseline are sampled: one span in {sizes.one_in}, selected by hash. All counts are counts of "
            f"the sample."
        )
    if tested.truncated:
        sentences.append("There were too many keys or values to count; the rarest are omitted.")
    return " ".join((*sentences, "A difference is an association, not a cause."))


def _that_match(filters: Sequence[Filter], side: str) -> str:
    return f" that match {_count_filters(filters)} of the {side}" if filters else ""


def _count_filters(filters: Sequence[Filter]) -> str:
    return f"{len(filters)} filter{'s' * (len(filters) != 1)}"


def _omitted_keys_sentence(identifiers: list[str]) -> str:
    names = ", ".join(identifiers[:_MAX_NAMED_IDENTIFIERS]) + ", ..." * (len(identifiers) > _MAX_NAMED_IDENTIFIERS)
    count = len(identifiers)
    verb = "key was" if count == 1 else "keys were"
    return f"{count} {verb} omitted ({names}), because nearly every span has a different value."


def _format_window(window: Window) -> str:
    return f"{format_timestamp(window.from_ns)} to {format_timestamp(window.to_ns)}"
