from hypothesis import given
from hypothesis import strategies as st

from dashboards.views.savings import SavingsSums, waterfall

MONEY = st.integers(-(10**12), 10**12)
SUMS = st.builds(
    SavingsSums,
    list_nanos=MONEY,
    cost_nanos=MONEY,
    read_saved_nanos=MONEY,
    write_extra_nanos=MONEY,
    planning_nanos=MONEY,
    compaction_nanos=MONEY,
    notes_nanos=MONEY,
    routing_nanos=MONEY,
)


@given(SUMS)
def test_the_steps_lead_from_the_unmodified_cost_to_the_paid_one(sums: SavingsSums) -> None:
    assert sums.unmodified_nanos + sum(step.nanos for step in waterfall(sums)) == sums.cost_nanos


@given(SUMS, SUMS)
def test_waterfalls_add_up_step_by_step(one: SavingsSums, other: SavingsSums) -> None:
    both = one.plus(other)

    assert both.unmodified_nanos == one.unmodified_nanos + other.unmodified_nanos
    assert [step.nanos for step in waterfall(both)] == [
        a.nanos + b.nanos for a, b in zip(waterfall(one), waterfall(other), strict=True)
    ]


def test_an_uncached_call_would_have_cost_what_plain_input_does() -> None:
    # 100 tokens read at 1 instead of 10, 10 written at 12 instead of 10, a tenth off.
    sums = SavingsSums(
        list_nanos=220,
        cost_nanos=198,
        read_saved_nanos=900,
        write_extra_nanos=20,
        planning_nanos=50,
    )

    assert sums.unmodified_nanos == 1_100
    assert {step.name: step.nanos for step in waterfall(sums)} == {
        "cache_reads": -850,
        "cache_writes": 20,
        "planning": -50,
        "compaction": 0,
        "routing": 0,
        "discounts": -22,
    }


def test_each_step_says_how_it_is_computed_and_how_sure_it_is() -> None:
    steps = waterfall(SavingsSums())

    assert {step.sureness for step in steps} == {"exact", "estimated"}
    assert all(step.method.endswith(".") and step.title for step in steps)
