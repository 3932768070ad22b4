"""Percentiles of the newest calls of a key."""

from dataclasses import replace

from dashboards.views.calls import CallRow
from dashboards.views.key_usage import KeyLatency, key_latency
from proxy.store.sql.views.calls import call_row
from tests.fakes.receipts import a_receipt


def calls(*durations: float, **fields: object) -> list[CallRow]:
    row = call_row(a_receipt(0), 1, {})
    changed: dict[str, object] = {"outcome": "answered", **fields}
    return [replace(row, duration=duration, **changed) for duration in durations]  # type: ignore[arg-type]


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    measured = key_latency(calls(*(float(n) for n in range(100, 0, -1))))

    assert measured == KeyLatency(calls=100, p50=50.0, p95=95.0)


def test_one_call_is_all_percentiles_and_none_is_unknown() -> None:
    assert key_latency(calls(2.5)) == KeyLatency(calls=1, p50=2.5, p95=2.5)
    assert key_latency([]) == KeyLatency(calls=0, p50=None, p95=None)


def test_calls_without_an_answer_are_not_measured() -> None:
    failed = calls(90.0, outcome="failed")

    assert key_latency([*failed, *calls(1.0)]) == KeyLatency(calls=1, p50=1.0, p95=1.0)
