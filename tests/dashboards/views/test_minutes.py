from typing import Any

import pytest

from dashboards.views.minutes import (
    AttemptGroup,
    first_token_phases,
    groups_by_value,
    longest_phase,
    totals_by_bucket,
    window_totals,
)


def attempts(**fields: Any) -> AttemptGroup:
    one = AttemptGroup(
        bucket=0,
        value="lab/m",
        code="",
        calls=1,
        errors=0,
        refused=0,
        attempts=1,
        failed_attempts=0,
        cost_nanos=5,
        durations=[1_000_000],
        first_tokens=[500_000],
    )
    return one._replace(**fields)


def test_totals_add_up_groups_and_take_percentiles_of_all_their_times() -> None:
    answered = [attempts(durations=[n * 1_000_000]) for n in range(100, 0, -1)]
    failed = attempts(code="upstream_timeout", errors=1, durations=[], first_tokens=[])
    totals = window_totals([*answered, failed])

    assert (totals.calls, totals.errors, totals.attempts, totals.cost_nanos) == (101, 1, 101, 505)
    assert (totals.p50, totals.p95, totals.ttft_p95) == (50.0, 95.0, 0.5)


def test_without_calls_there_is_no_percentile_and_no_cost() -> None:
    totals = window_totals([])

    assert (totals.calls, totals.cost_nanos, totals.p50, totals.p95) == (0, 0, None, None)


def test_attempts_count_in_their_bucket_and_outside_of_all_nowhere() -> None:
    groups = [attempts(bucket=bucket) for bucket in (-1, 1, 1, 2)]

    assert [bucket.calls for bucket in totals_by_bucket(groups, 2)] == [0, 2]


def test_values_with_most_calls_come_first() -> None:
    groups = [attempts(value=value) for value in "bacc"]

    assert [value for value, _ in groups_by_value(groups)] == ["c", "a", "b"]


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
