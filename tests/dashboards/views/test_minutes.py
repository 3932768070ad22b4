from typing import Any

import pytest

from dashboards.views.minutes import (
    EndedCall,
    call_totals,
    calls_by_value,
    first_token_phases,
    longest_phase,
    slowest_call,
    totals_by_bucket,
)


def a_call(started: float = 0.0, **fields: Any) -> EndedCall:
    plain = EndedCall(
        started=round(started * 1_000_000),
        duration=1_000_000,
        ttft=500_000,
        error="",
        refusal="",
        cost_nanos=5,
        is_end=1,
        has_failed=0,
        call_id="call_1",
        value="lab/m",
    )
    return plain._replace(**fields)


def test_totals_count_errors_and_leave_their_times_out_of_percentiles() -> None:
    calls = [a_call(duration=n * 1_000_000) for n in range(1, 101)]
    failed = a_call(duration=None, ttft=None, error="upstream_timeout")
    refused = a_call(duration=None, ttft=None, refusal="budget_exceeded", cost_nanos=0)
    totals = call_totals([*calls, failed, refused])

    assert (totals.calls, totals.errors, totals.refused) == (102, 1, 1)
    assert totals.cost_nanos == 505
    assert (totals.p50, totals.p95, totals.ttft_p95) == (50.0, 95.0, 0.5)


def test_attempts_that_were_given_up_count_beside_the_calls() -> None:
    given_up = [a_call(is_end=0, has_failed=1, duration=None, ttft=None)] * 18
    totals = call_totals([*given_up, *[a_call()] * 3])

    assert (totals.calls, totals.errors) == (3, 0)
    assert (totals.failed_attempts, totals.attempts) == (18, 21)


def test_without_calls_there_is_no_percentile_and_no_cost() -> None:
    totals = call_totals([])

    assert (totals.calls, totals.cost_nanos, totals.p50, totals.p95) == (0, 0, None, None)


def test_unknown_cost_adds_nothing() -> None:
    assert call_totals([a_call(cost_nanos=None), a_call()]).cost_nanos == 5


@pytest.mark.parametrize(
    ("started", "counts"),
    [(59.9, [0, 0]), (60.0, [1, 0]), (119.9, [1, 0]), (120.0, [0, 1]), (180.0, [0, 0])],
)
def test_call_counts_in_the_bucket_that_it_arrived_in(started: float, counts: list[int]) -> None:
    buckets = totals_by_bucket([a_call(started)], [60, 120], 60)

    assert [bucket.calls for bucket in buckets] == counts


def test_an_attempt_before_the_last_adds_its_cost_and_is_no_call() -> None:
    earlier = a_call(value="lab/small", duration=None, ttft=None, is_end=0)
    groups = dict(calls_by_value([a_call(), earlier, earlier]))
    totals = {value: call_totals(group) for value, group in groups.items()}

    assert call_totals([a_call(), earlier]).cost_nanos == 10
    assert [*totals] == ["lab/m", "lab/small"]
    assert (totals["lab/small"].calls, totals["lab/small"].cost_nanos) == (0, 10)


def test_values_with_most_calls_come_first() -> None:
    calls = [a_call(value="b"), a_call(value="a"), a_call(value="c"), a_call(value="c")]

    assert [value for value, _ in calls_by_value(calls)] == ["c", "a", "b"]


def test_the_slowest_call_is_an_answered_one() -> None:
    slow = a_call(ttft=3_000_000)

    assert slowest_call([a_call(), slow, a_call(ttft=None)]) == slow
    assert slowest_call([a_call(ttft=None)]) is None


@pytest.mark.parametrize(
    ("parts", "phase"),
    [
        ((0, 10, None, None), ("wait for the provider", 990)),
        ((700, 10, None, None), ("earlier attempts", 700)),
        ((0, 10, 600, 300), ("queue of the engine", 600)),
        ((0, None, 100, 850), ("prefill of the engine", 850)),
        ((0, 2_000, None, None), ("gateway", 2_000)),
    ],
)
def test_the_longest_phase_names_what_took_the_time_to_the_first_token(
    parts: tuple[int, int | None, int | None, int | None], phase: tuple[str, int]
) -> None:
    assert longest_phase(first_token_phases(1_000, *parts)) == phase
