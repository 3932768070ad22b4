import json
import logging
from typing import Any

import msgspec
import pytest

from proxy.records.receipt import Outcome
from proxy.services.telemetry.telemetry import TOP_SERIES, Telemetry
from slo.usage import Usage
from tests.fakes.receipts import a_receipt

USAGE = Usage(input=100, cache_read=64, write_5m=1, write_1h=2, output=10, reasoning=5)
CALL = a_receipt(
    team="t",
    feature="chat",
    model="asked",
    route="up/m",
    usage=USAGE,
    cost_nanos=1_500_000_000,
    ttft=0.3,
    duration=1.5,
)
#: Its labels, in place of ``WHO``.
WHO = 'model="m",route="up/m",team="t"'


def value(telemetry: Telemetry, line: str) -> float | None:
    """Return what a metric's line says; None if it is not there."""
    for metric_line in telemetry.prometheus_text().decode().splitlines():
        name, _, number = metric_line.rpartition(" ")
        if name == line:
            return float(number)
    return None


def telemetry_of(*receipts, log_calls: bool = False, **fields: Any) -> Telemetry:
    telemetry = Telemetry(log_calls=log_calls, **fields)
    for receipt in receipts:
        telemetry.observe(receipt)
    return telemetry


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('thriftgate_attempts_total{outcome="answered",route="up/m",team="t"}', 2),
        (
            'thriftgate_tokens_total{bucket="input",feature="chat",WHO}',
            200,
        ),
        (
            'thriftgate_tokens_total{bucket="cache_read",feature="chat",WHO}',
            128,
        ),
        (
            'thriftgate_tokens_total{bucket="cache_write",feature="chat",WHO}',
            6,
        ),
        (
            'thriftgate_tokens_total{bucket="output",feature="chat",WHO}',
            20,
        ),
        (
            'thriftgate_tokens_total{bucket="reasoning",feature="chat",WHO}',
            10,
        ),
        ('thriftgate_cost_usd_total{feature="chat",WHO}', 3.0),
        ('thriftgate_unpriced_total{route="up/m",team="t"}', 0),
        ('thriftgate_estimated_total{route="up/m",team="t"}', 0),
        (
            'thriftgate_ttft_seconds_bucket{feature="chat",le="0.25",WHO}',
            0,
        ),
        (
            'thriftgate_ttft_seconds_bucket{feature="chat",le="0.5",WHO}',
            2,
        ),
        ('thriftgate_duration_seconds_sum{feature="chat",WHO}', 3.0),
        ("thriftgate_overhead_seconds_count", 2),
    ],
)
def test_receipts_add_up_to_metrics(line, expected):
    assert value(telemetry_of(CALL, CALL), line.replace("WHO", WHO)) == expected


def test_missed_tokens_are_counted_by_reason():
    missed = a_receipt(team="t", route="up/m", usage=USAGE, miss="expired", miss_tokens=40)
    line = 'thriftgate_missed_tokens_total{reason="expired",route="up/m",team="t"}'

    assert value(telemetry_of(missed, missed, CALL), line) == 80


def test_calls_without_a_price_are_counted_as_unpriced():
    telemetry = telemetry_of(
        msgspec.structs.replace(CALL, cost_nanos=None, estimated=True, ttft=None)
    )
    labels = '{feature="chat",model="m",route="up/m",team="t"}'

    assert value(telemetry, 'thriftgate_unpriced_total{route="up/m",team="t"}') == 1
    assert value(telemetry, 'thriftgate_estimated_total{route="up/m",team="t"}') == 1
    assert value(telemetry, f"thriftgate_cost_usd_total{labels}") == 0
    assert value(telemetry, f"thriftgate_ttft_seconds_count{labels}") == 0


def test_a_call_without_usage_costs_nothing_and_lacks_no_price():
    telemetry = telemetry_of(
        a_receipt(team="t", route="", usage=None, cost_nanos=None, outcome=Outcome.REFUSED)
    )

    assert value(telemetry, 'thriftgate_attempts_total{outcome="refused",route="",team="t"}') == 1
    assert value(telemetry, 'thriftgate_unpriced_total{route="",team="t"}') == 0


def test_series_are_bounded_and_what_is_over_is_summed():
    telemetry = telemetry_of(*(a_receipt(team=f"t{n}", route="up/m") for n in range(4100)))

    assert len(telemetry._series) == 4097
    assert telemetry._series["other", "other"].attempts[Outcome.ANSWERED] == 4


def test_teams_are_called_by_their_names():
    telemetry = telemetry_of(CALL, team_name={"t": "acme"}.__getitem__)

    line = 'thriftgate_cost_usd_total{feature="chat",model="m",route="up/m",team="acme"}'
    assert value(telemetry, line) == 1.5
    line = 'thriftgate_attempts_total{outcome="answered",route="up/m",team="acme"}'
    assert value(telemetry, line) == 1
    assert 'team="t"' not in telemetry.prometheus_text().decode()


def test_a_call_that_fell_back_counts_once_under_the_model_that_answered():
    failed = msgspec.structs.replace(
        CALL, final=False, route="up/asked", outcome=Outcome.FAILED, usage=None, cost_nanos=None
    )
    telemetry = telemetry_of(failed, CALL)
    page = telemetry.prometheus_text().decode()

    calls = [line for line in page.splitlines() if line.startswith("thriftgate_calls_total")]
    labels = '{feature="chat",model="m",outcome="answered",route="up/m",team="t"}'
    assert calls == [f"thriftgate_calls_total{labels} 1.0"]


def test_features_and_models_that_callers_make_up_are_bounded():
    made_up = [
        msgspec.structs.replace(CALL, feature=f"f{n}", model=f"m{n}", route="up/gpt-*")
        for n in range(3 * TOP_SERIES)
    ]
    telemetry = telemetry_of(*made_up)
    page = telemetry.prometheus_text().decode().splitlines()

    lines = [line for line in page if line.startswith("thriftgate_cost_usd_total")]
    assert len(lines) == TOP_SERIES + 1
    other = '{feature="other",model="other",route="other",team="other"}'
    assert value(telemetry, f"thriftgate_cost_usd_total{other}") == 1.5 * 2 * TOP_SERIES
    assert len(page) < 60 * TOP_SERIES


@pytest.mark.parametrize(
    ("outcome", "log_calls", "lines"),
    [
        (Outcome.ANSWERED, False, 0),
        (Outcome.ANSWERED, True, 1),
        (Outcome.FAILED, False, 1),
        (Outcome.HUNG_UP, False, 1),
    ],
)
def test_failures_are_always_logged_and_answers_if_wanted(caplog, outcome, log_calls, lines):
    with caplog.at_level(logging.INFO, "thriftgate.calls"):
        telemetry_of(a_receipt(outcome=outcome), log_calls=log_calls)

    assert len(caplog.records) == lines


def test_times_are_logged_to_the_microsecond(caplog):
    long = msgspec.structs.replace(
        CALL, started=1.1234567890123, duration=0.30000000000000004, overhead=1e-9, ttft=2 / 3
    )
    with caplog.at_level(logging.INFO, "thriftgate.calls"):
        telemetry_of(long, log_calls=True)

    line = json.loads(caplog.records[0].getMessage())
    assert [line[name] for name in ("started", "duration", "ttft")] == [1.123457, 0.3, 0.666667]
    assert line.get("overhead", 0.0) == 0.0


def test_a_log_line_is_the_receipt_without_the_callers_text(caplog):
    with caplog.at_level(logging.INFO, "thriftgate.calls"):
        telemetry_of(a_receipt(outcome=Outcome.FAILED, error="busy", prompt="the secret plan"))

    line = json.loads(caplog.records[0].getMessage())
    assert line["error"] == "busy"
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("compacted_attempts_total", 2),
        ("compaction_removed_tokens_total", 1_200),
        ("compaction_resets_total", 1),
        ("compaction_needed_values_total", 6),
        ("compaction_lost_values_total", 1),
        ("compaction_saved_usd", -1.0),
        ("compaction_gained_usd_total", 0.5),
        ("compaction_paid_usd_total", 1.5),
    ],
)
def test_compactions_are_counted(name, expected):
    compacted = a_receipt(
        team="t",
        route="up/m",
        compaction="facts",
        compacted=True,
        tokens_before=900,
        tokens_after=300,
        compaction_nanos=500_000_000,
        needed=3,
    )
    reset = msgspec.structs.replace(compacted, reset=True, compaction_nanos=-1_500_000_000, lost=1)

    refused = msgspec.structs.replace(reset, outcome=Outcome.FAILED, compaction_nanos=None)

    line = f'thriftgate_{name}{{route="up/m",team="t"}}'
    assert value(telemetry_of(compacted, reset, refused, CALL), line) == expected


def test_recalls_are_counted_by_the_end_of_their_attempt():
    recalled = a_receipt(
        team="t", route="up/m", compaction="facts+recall", recalls=2, recalled_tokens=700
    )
    endless = msgspec.structs.replace(
        recalled, outcome=Outcome.FAILED, error="recall_failed", recalls=4, final=False
    )
    broken = msgspec.structs.replace(recalled, outcome=Outcome.BROKEN, recalls=1)
    cut_off = msgspec.structs.replace(recalled, recalls=4)  # after content, the answer ends
    telemetry = telemetry_of(recalled, recalled, endless, cut_off, broken, CALL)

    for outcome, count in {"answered": 4, "endless": 8, "broken": 1}.items():
        line = f'thriftgate_recalls_total{{outcome="{outcome}",route="up/m",team="t"}}'
        assert value(telemetry, line) == count
    assert value(telemetry, 'thriftgate_recalled_tokens_total{route="up/m",team="t"}') == 3_500


def test_reasons_for_unmodified_conversations_are_counted_up_to_a_bound():
    left = [
        a_receipt(team="t", route="up/m", compaction="facts", compaction_why=f"why {n}")
        for n in range(40)
    ]
    telemetry = telemetry_of(*left, left[0])
    line = 'thriftgate_uncompacted_attempts_total{{reason="{}",route="up/m",team="t"}}'

    assert value(telemetry, line.format("why 0")) == 2
    assert value(telemetry, line.format("other")) == 8
