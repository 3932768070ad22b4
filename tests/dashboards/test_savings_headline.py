import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.savings_headline import (
    MAX_UNCOUNTED,
    MeasuredShare,
    SavingsSums,
    UncountedSaving,
    count_planning,
    savings_headline,
    waterfall,
)

MONEY = st.integers(-(10**12), 10**12)
COST = st.integers(0, 10**12)
SUMS = st.builds(
    SavingsSums,
    list_nanos=MONEY,
    cost_nanos=MONEY,
    read_saved_nanos=MONEY,
    write_extra_nanos=MONEY,
    planning_nanos=MONEY,
    planned_cost_nanos=COST,
    compaction_nanos=MONEY,
    routing_nanos=MONEY,
    fallback_nanos=MONEY,
    cache_nanos=MONEY,
    small_nanos=MONEY,
    draft_nanos=MONEY,
    checks_nanos=MONEY,
    fast_path_discount_nanos=MONEY,
)
SHARES = st.none() | st.lists(st.floats(-5, 0.9), min_size=3, max_size=3).map(
    lambda values: MeasuredShare(*[sorted(values)[n] for n in (1, 0, 2)])
)


@given(SUMS, SHARES)
def test_steps_lead_from_no_caches_over_sending_directly_to_the_paid_cost(
    sums: SavingsSums, share: MeasuredShare | None
) -> None:
    headline = savings_headline(count_planning(sums, share))
    before = sum(step.nanos for step in headline.steps if not step.is_own)
    own = [step for step in headline.steps if step.is_own]

    assert headline.unmodified_nanos + before == headline.direct_nanos
    assert headline.direct_nanos + sum(step.nanos for step in own) == headline.paid_nanos
    assert headline.saved_nanos == headline.direct_nanos - headline.paid_nanos
    assert headline.saved_low_nanos <= headline.saved_nanos <= headline.saved_high_nanos


@given(SUMS, COST)
def test_running_the_gateway_is_taken_off_what_was_saved_and_is_in_no_other_cost(
    sums: SavingsSums, running: int
) -> None:
    stated, unknown = savings_headline(sums, running_nanos=running), savings_headline(sums)

    assert stated.saved_nanos == unknown.saved_nanos - running
    assert stated.saved_high_nanos == unknown.saved_high_nanos - running
    assert (stated.direct_nanos, stated.paid_nanos) == (unknown.direct_nanos, unknown.paid_nanos)
    assert [(step.name, step.nanos) for step in stated.steps[-1:]] == [("running", running)]
    assert unknown.running_nanos is None
    assert "running" not in {step.name for step in unknown.steps}


@given(SUMS, SHARES)
def test_the_headline_is_the_sum_of_the_gateways_own_steps(
    sums: SavingsSums, share: MeasuredShare | None
) -> None:
    counted = count_planning(sums, share)

    assert savings_headline(counted).saved_nanos == (
        counted.planning_nanos
        + counted.compaction_nanos
        + sum(counted.fast_path_parts.values())
        + counted.routing_nanos
    )


@given(SUMS, COST, COST)
def test_headline_leaves_out_what_a_direct_caller_has_too(
    sums: SavingsSums, read_saved: int, discount: int
) -> None:
    cached = msgspec.structs.replace(
        sums, read_saved_nanos=read_saved, list_nanos=sums.cost_nanos + discount
    )

    assert savings_headline(cached).saved_nanos == savings_headline(sums).saved_nanos
    assert savings_headline(cached).direct_nanos == savings_headline(sums).direct_nanos


@given(SUMS, SUMS, SHARES)
def test_headlines_of_parts_add_up(
    one: SavingsSums, other: SavingsSums, share: MeasuredShare | None
) -> None:
    parts = [count_planning(one, share), count_planning(other, None)]
    both = savings_headline(parts[0].plus(parts[1]))

    for name in ("direct_nanos", "paid_nanos", "saved_nanos", "saved_low_nanos"):
        assert getattr(both, name) == sum(getattr(savings_headline(part), name) for part in parts)


def test_a_measured_share_counts_in_place_of_the_estimate_with_its_interval() -> None:
    sums = SavingsSums(list_nanos=80, cost_nanos=80, planning_nanos=70, planned_cost_nanos=80)
    headline = savings_headline(count_planning(sums, MeasuredShare(value=0.2, low=0.0, high=0.5)))

    assert (headline.saved_low_nanos, headline.saved_nanos, headline.saved_high_nanos) == (
        0,
        20,
        80,
    )
    assert (headline.direct_nanos, headline.saved_share) == (100, 0.2)
    assert {step.name: step.sureness for step in headline.steps}["planning"] == "measured"


def test_planning_that_is_measured_of_some_features_is_partly_measured() -> None:
    sums = SavingsSums(cost_nanos=80, planning_nanos=70, planned_cost_nanos=80)
    both = count_planning(sums, MeasuredShare(0.2, 0.1, 0.3)).plus(count_planning(sums, None))

    assert {step.name: step.sureness for step in waterfall(both)}["planning"] == "partly measured"


def test_each_step_says_how_it_is_computed_and_how_sure_it_is() -> None:
    steps = waterfall(SavingsSums())

    assert {step.sureness for step in steps} == {"exact", "estimated"}
    assert all(step.method.endswith(".") and step.title for step in steps)
    assert [step.name for step in steps if not step.is_own] == ["provider_caching", "discounts"]


@pytest.mark.parametrize("count", [0, MAX_UNCOUNTED, 10 * MAX_UNCOUNTED])
def test_the_largest_estimates_that_are_not_counted_are_named(count: int) -> None:
    given_savings = [
        UncountedSaving(team="t", team_name="t", feature=str(n), part="planning", nanos=n, why="x")
        for n in range(count)
    ]
    named = savings_headline(SavingsSums(), given_savings).uncounted

    assert [saving.nanos for saving in named] == sorted(range(count), reverse=True)[:MAX_UNCOUNTED]
