"""The alert rules as Prometheus evaluates them (promtool), over samples of gateways that are well and that are not."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import promql_parser

from tests.deploy.promql import named
from tests.deploy.test_alerts import ALL, RULES
from tests.programs import program

STEP: Final = "30s"  # of the samples, in promtool's notation: start+growth x times
HEALTHY: Final[Mapping[str, str]] = {
    'sluice_gateway_received_items_total{signal="traces"}': "0+300x140",
    'sluice_gateway_items_total{signal="traces",outcome="accepted",reason=""}': "0+300x140",
    "sluice_gateway_unanswered_items": "0x140",
    'sluice_gateway_recovered_items_total{signal="traces"}': "0x140",
    'sluice_gateway_stored_items_total{signal="traces"}': "0+300x140",
    'sluice_gateway_quarantined_items_total{signal="traces"}': "0x140",
    'sluice_gateway_lost_items_total{signal="traces",reason="refused"}': "0x140",
    "sluice_gateway_pending_items": "0x140",
    'sluice_gateway_lost_rows_total{table="spans"}': "0x140",
    'sluice_gateway_requests_total{signal="traces",outcome="accepted",reason=""}': "0+30x140",
    'sluice_gateway_requests_total{signal="traces",outcome="refused",reason="overloaded"}': "0x140",
    'sluice_gateway_ack_seconds_bucket{signal="traces",le="0.1"}': "0+30x140",
    'sluice_gateway_ack_seconds_bucket{signal="traces",le="+Inf"}': "0+30x140",
    "sluice_gateway_store_up": "1x140",
    "sluice_gateway_refusing_tables": "0x140",
    'sluice_erasures_open{state="failed"}': "0x140",
    "sluice_erasures_oldest_seconds": "0x140",
    "sluice_issues_lag_seconds": "1x140",
    'sluice_webhook_deliveries_total{source="github",outcome="failed"}': "0x140",
    'sluice_gateway_parts{table="spans"}': "40x140",
    "sluice_gateway_journal_room_bytes": "16000000000x140",
    "sluice_gateway_journal_oldest_seconds": "1x140",
    "sluice_gateway_journal_damaged_frames_total": "0x140",
    'sluice_gateway_journal_sync_seconds_bucket{le="0.1"}': "0+100x140",
    'sluice_gateway_journal_sync_seconds_bucket{le="+Inf"}': "0+100x140",
    'sluice_loop_lag_seconds_bucket{le="0.1"}': "0+30x140",
    'sluice_loop_lag_seconds_bucket{le="+Inf"}': "0+30x140",
    "sluice_loop_lag_worst_seconds": "0.01x140",
    "process_open_fds": "50x140",
    "process_max_fds": "20000x140",
    'sluice_build_info{decoder="kernel"}': "1x140",
    "sluice_worker_up": "1x140",
    'sluice_http_requests_total{route="/orgs/{orgSlug}/explore/spans",status="200"}': "0+30x140",
    'sluice_http_requests_total{route="/v1/traces",status="503"}': "0+30x140",
    'sluice_query_queue_seconds_bucket{le="10.0"}': "0+30x140",
    'sluice_query_queue_seconds_bucket{le="30.0"}': "0+30x140",
    'sluice_query_queue_seconds_bucket{le="+Inf"}': "0+30x140",
    'sluice_delivery_attempts_total{kind="webhook",result="DEAD"}': "0x140",
    "sluice_deliveries_overdue_seconds": "0x140",
    "sluice_backup_last_success_timestamp_seconds": "0x140",
}
# Counters that have no sample before they count.
LATER: Final = {
    "sluice_gateway_insert_failures_total",
    "sluice_gateway_journal_failures_total",
    "sluice_delivery_faults_total",
    "sluice_warehouse_runs_total",
}

RECEIVED: Final = 'sluice_gateway_received_items_total{signal="traces"}'
ACCEPTED: Final = 'sluice_gateway_items_total{signal="traces",outcome="accepted",reason=""}'
STORED: Final = 'sluice_gateway_stored_items_total{signal="traces"}'
PENDING: Final = "sluice_gateway_pending_items"
LOST: Final = 'sluice_gateway_lost_items_total{signal="traces",reason="refused"}'
UP: Final = "sluice_gateway_store_up"
REFUSING: Final = "sluice_gateway_refusing_tables"
FAILURES: Final = 'sluice_gateway_insert_failures_total{table="spans",error="StoreUnavailable"}'
ROOM: Final = "sluice_gateway_journal_room_bytes"
OLDEST: Final = "sluice_gateway_journal_oldest_seconds"
OVERLOADED: Final = 'sluice_gateway_requests_total{signal="traces",outcome="refused",reason="overloaded"}'

EXPLORED_503: Final = 'sluice_http_requests_total{route="/orgs/{orgSlug}/explore/spans",status="503"}'
EXPLORED_400: Final = 'sluice_http_requests_total{route="/orgs/{orgSlug}/explore/spans",status="400"}'
PROMPT: Final = 'sluice_query_queue_seconds_bucket{le="10.0"}'

DEAD: Final = 'sluice_delivery_attempts_total{kind="webhook",result="DEAD"}'
FAULTS: Final = 'sluice_delivery_faults_total{kind="email"}'
OVERDUE: Final = "sluice_deliveries_overdue_seconds"
FAILED_WEBHOOKS: Final = 'sluice_webhook_deliveries_total{source="github",outcome="failed"}'
FAILED_RUNS: Final = 'sluice_warehouse_runs_total{kind="BLOBSTORE",stream="ISSUE_ROLLUPS",status="FAILED"}'
GOOD_RUNS: Final = FAILED_RUNS.replace("FAILED", "SUCCEEDED")
FAILED_ERASURE: Final = 'sluice_erasures_open{state="failed"}'
OLDEST_ERASURE: Final = "sluice_erasures_oldest_seconds"
ISSUES_LAG: Final = "sluice_issues_lag_seconds"
BACKUP: Final = "sluice_backup_last_success_timestamp_seconds"  # here it is 0 when the time begins

AWAY: Final = "SluiceClickHouseAway"
STALLED: Final = {PENDING: "0x20 300+300x119", STORED: "0+300x20 6000x119"}  # from 10m30s on nothing is stored
IDLE: Final = {RECEIVED: "6000x140", ACCEPTED: "6000x140", STORED: "6000x140"}


class Case(NamedTuple):
    """Samples instead of those in health, and the alerts that fire at a moment, if any."""

    name: str
    instead: Mapping[str, str]
    at: str
    fire: frozenset[str] = frozenset()


CASES: Final = (
    Case("all is well", {}, "16m"),
    Case("no room in the journal", {ROOM: "16000000000x20 1000x119"}, "13m", frozenset({"SluiceJournalFull"})),
    Case("little room for less than a minute", {ROOM: "16000000000x20 1000x0 16000000000x58"}, "11m"),
    Case(
        "the journal fills up",
        {ROOM: "16000000000-200000000x140", OLDEST: "1+30x140"},
        "16m",
        frozenset({"SluiceJournalFillsUp", "SluiceJournalOld"}),
    ),
    Case("clickhouse is away", {**STALLED, UP: "1x20 0x119"}, "13m30s", frozenset({AWAY})),
    Case("clickhouse is away for a minute", {UP: "1x20 0x1 1x57"}, "13m30s"),
    Case(
        "probes succeed, inserts time out and nothing waits, as in the mode store",
        {UP: "1x20 0x0 1x6 0x0 1x6 0x0 1x45", REFUSING: "0x20 1x119", FAILURES: "_x20 1+1x119"},
        "16m",
        frozenset({AWAY}),
    ),
    Case("one table refused and takes again", {REFUSING: "0x20 1x3 0x55", FAILURES: "_x20 1+1x3 4x55"}, "13m"),
    Case(
        "a table refused the last insert and nothing came since",
        {**IDLE, REFUSING: "0x20 1x119", FAILURES: "1x140"},
        "16m",
    ),
    Case("inserts do not end", STALLED, "17m", frozenset({AWAY})),
    Case("inserts are slow", {PENDING: "300x140", STORED: "-300+300x140"}, "16m"),
    Case(
        "a start with a backlog",
        {PENDING: "_x40 9000x1", STORED: "_x40 0x1", ACCEPTED: "_x40 9000x1"},
        "20m30s",
    ),
    Case(
        "items are lost",
        {LOST: "0x20 5x119", STORED: "0+300x20 6295+300x58"},
        "12m",
        frozenset({"SluiceItemsLost"}),
    ),
    Case("items were lost before the last hour", {LOST: "5x140", STORED: "-5+300x140"}, "65m"),
    Case(
        "a new process has lost items before it was seen",
        {LOST: "_x40 5x39", STORED: "0+300x40 11995+300x39"},
        "21m",
        frozenset({"SluiceItemsLost"}),
    ),
    Case("items are in no account", {STORED: "-1+300x140"}, "10m", frozenset({"SluiceConservationViolated"})),
    Case(
        "an answer has no account",
        {ACCEPTED: "7+300x140", STORED: "7+300x140"},
        "10m",
        frozenset({"SluiceConservationViolated"}),
    ),
    Case("items between two samples", {STORED: "0+300x20 6000x0 6600+300x58"}, "10m30s"),
    Case("a tenth is refused", {OVERLOADED: "0+4x140"}, "16m", frozenset({"SluiceExportsRefused"})),
    Case("a fortieth is refused", {OVERLOADED: "0+0.75x140"}, "16m"),
    Case("a tenth of explore is refused", {EXPLORED_503: "0+3x140"}, "17m", frozenset({"SluiceExploreRefused"})),
    Case("a tenth of explore was refused for a while", {EXPLORED_503: "0+3x10 30x129"}, "17m"),
    Case("a tenth of explore is too expensive", {EXPLORED_400: "0+3x140"}, "17m"),
    Case("one in five explores waits for long", {PROMPT: "0+24x140"}, "22m", frozenset({"SluiceExploreWaits"})),
    Case("one in twenty explores waits for long", {PROMPT: "0+28.5x140"}, "22m"),
    Case("a message is given up", {DEAD: "0x20 1x119"}, "12m", frozenset({"SluiceDeliveriesDead"})),
    Case("a message was given up before the last hour", {DEAD: "1x140"}, "65m"),
    Case("the first message of a process is given up", {DEAD: "_x40 1x39"}, "21m", frozenset({"SluiceDeliveriesDead"})),
    Case("the mail server is away", {FAULTS: "0+1x140"}, "16m", frozenset({"SluiceDeliveriesFaulty"})),
    Case("the mail server was away for a moment", {FAULTS: "0x4 2x135"}, "10m"),
    Case("a message waits for its turn", {OVERDUE: "0+30x140"}, "32m", frozenset({"SluiceDeliveriesLate"})),
    Case("a message waited for its turn", {OVERDUE: "0+30x30 0x109"}, "32m"),
    Case("the last backup is two days old", {BACKUP: "-172800x140"}, "65m", frozenset({"SluiceBackupOld"})),
    Case("the last backup is a day old", {BACKUP: "-86400x140"}, "65m"),
    Case("an erasure has failed", {FAILED_ERASURE: "1x30"}, "10m", frozenset({"SluiceErasureFailed"})),
    Case("an erasure is pending", {FAILED_ERASURE: "0x30", OLDEST_ERASURE: "3600x30"}, "15m"),
    Case("an erasure is a day old", {OLDEST_ERASURE: "90000x30"}, "15m", frozenset({"SluiceErasureLate"})),
    Case("errors have not been counted for minutes", {ISSUES_LAG: "0+60x30"}, "10m", frozenset({"SluiceIssuesBehind"})),
    Case("webhooks fail", {FAILED_WEBHOOKS: "0+1x140"}, "16m", frozenset({"SluiceWebhooksFail"})),
    Case("webhooks failed for a moment", {FAILED_WEBHOOKS: "0x4 2x135"}, "10m"),
    Case("every export fails", {FAILED_RUNS: "0+1x140"}, "30m", frozenset({"SluiceSinksFail"})),
    Case("one sink fails, another exports", {FAILED_RUNS: "0+1x140", GOOD_RUNS: "0+1x140"}, "30m"),
    Case("errors wait for a second", {ISSUES_LAG: "1x30"}, "15m"),
)


def test_prometheus_reads_the_rules() -> None:
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(ALL)} rules found" in done.stdout


def test_alerts_fire_when_they_are_to_and_not_otherwise(tmp_path: Path) -> None:
    tests = tmp_path / "tests.yml"
    tests.write_bytes(
        msgspec.yaml.encode(
            {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [_as_test(case) for case in CASES]}
        )
    )
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(tests)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_samples_in_health_are_those_of_a_gateway_and_leave_out_none_that_an_alert_asks_for(
    exposed: Mapping[str, frozenset[str]],
) -> None:
    asked = {metric for rule in ALL for metric, _ in named(rule.expr)}
    assert {_metric(series) for series in HEALTHY} == asked - LATER
    for case in CASES:
        for series in {**HEALTHY, **case.instead}:
            selector = promql_parser.parse(series)
            assert isinstance(selector, promql_parser.VectorSelector)
            assert {matcher.name for matcher in selector.matchers.matchers} <= exposed[_metric(series)]


def _metric(series: str) -> str:
    return series.partition("{")[0]


def _as_test(case: Case) -> object:
    samples = {**HEALTHY, **case.instead}
    firing = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(case.fire)]
    expression = 'sum by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": case.name,
        "interval": STEP,
        "input_series": [{"series": _of_one(series), "values": values} for series, values in samples.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": case.at, "exp_samples": firing}],
    }


def _of_one(series: str) -> str:
    """With the labels of its target."""
    metric, _, labels = series.rstrip("}").partition("{")
    return f'{metric}{{instance="gateway-1:4318",job="sluice",{labels}}}'
