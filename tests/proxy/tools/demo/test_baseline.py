from dataclasses import replace
from datetime import timedelta

import pytest

from proxy.catalog.catalog import Catalog
from proxy.configuration import read_catalog
from proxy.settings import read
from proxy.tools.demo.baseline import CallTotals, baseline_costs, order_costs
from proxy.tools.demo.plan import calls
from proxy.tools.demo.traffic import DemoCall
from tests.proxy.tools.demo.scripts import NOW, Says, plan

AT = NOW.timestamp()
RULES = "Refunds are paid within fourteen days. " * 300
ANSWER = {"role": "assistant", "content": "Yes."}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog(read({}))


def answer_all(*scripts: Says) -> list[DemoCall]:
    """Every call of the scripts, answered in the same words."""
    answered = []
    for call in plan(*scripts):
        planned = replace(call, time=NOW + timedelta(minutes=call.turn))
        planned.record_answer(ANSWER)
        answered.append(DemoCall(planned=planned, call_id="call", output=2, message=ANSWER))
    return answered


def answer_the_demos_calls(count: int) -> list[DemoCall]:
    """So many calls of the demo's plan, answered in a hundred tokens."""
    answer = {"role": "assistant", "content": "This answer is simulated. " * 20}
    answered = []
    for planned in calls(start=NOW, count=count):
        planned.record_answer(answer)
        answered.append(DemoCall(planned=planned, call_id="call", output=100, message=answer))
    return answered


def test_a_call_sent_directly_reads_what_its_provider_keeps_without_being_asked(catalog):
    costs = baseline_costs(answer_all(Says(RULES, model="gpt-5.5", length=2)), catalog, AT)
    direct = costs.direct["acme-support"]

    assert 0 < direct.read < direct.prompt
    assert direct.nanos


def test_directly_nothing_is_read_where_a_provider_wants_marks(catalog):
    costs = baseline_costs(
        answer_all(Says(RULES, model="claude-sonnet-5-5", length=48)), catalog, AT
    )
    direct, arranged = costs.direct["acme-support"], costs.arranged["acme-support"]

    assert direct.read == 0
    assert arranged.read > 0
    assert arranged.prompt == direct.prompt


def test_teams_are_told_apart_and_failed_calls_left_out(catalog):
    answered = answer_all(Says("Hello!"), Says("Hello!", team="acme-engineering", model="gpt-5.5"))
    (unasked,) = plan(Says("Hello!", model="no-such-model"))
    costs = baseline_costs(
        [*answered, DemoCall(planned=unasked, call_id="", error="refused")], catalog, AT
    )

    assert set(costs.direct) == set(costs.arranged) == {"acme-support", "acme-engineering"}
    assert costs.direct["acme-support"].prompt == costs.direct["acme-engineering"].prompt


def test_a_price_that_nobody_knows_is_unknown(catalog):
    model = catalog.models["gpt-5.5"]
    unpriced = replace(model, routes=(replace(model.routes[0], tariff=None),))
    unpriced_catalog = replace(catalog, models={"gpt-5.5": unpriced})
    costs = baseline_costs(answer_all(Says("Hello!", model="gpt-5.5")), unpriced_catalog, AT)

    assert costs.direct["acme-support"].nanos is None


def test_prompts_with_what_stays_first_are_read_where_the_bad_order_reads_nothing(catalog):
    demo_calls = answer_the_demos_calls(60)
    mine = [call for call in demo_calls if call.planned.feature == "support-chat"]
    built = baseline_costs(mine, catalog, AT)
    orders = order_costs(demo_calls, built, catalog, AT)

    assert list(orders.direct) == ["variable first", "stable first", "shared prefix"]
    assert orders.direct["variable first"] == built.direct["acme-support"]
    assert {totals.calls for totals in orders.direct.values()} == {len(mine)}
    bad, stable, shared = (totals.nanos_per_1k_calls or 0 for totals in orders.direct.values())
    assert bad > 2 * stable > 2 * shared > 0
    assert orders.direct["variable first"].read == 0
    assert order_costs([], built, catalog, AT).direct == {}


def test_the_demos_calls_cost_60_percent_less_with_layouts_applied(catalog):
    baseline = baseline_costs(answer_the_demos_calls(200), catalog, AT)
    direct, arranged = (
        {team: totals.nanos or 0 for team, totals in costs.items()}
        for costs in (baseline.direct, baseline.arranged)
    )

    assert sum(totals.calls for totals in baseline.direct.values()) == 200
    assert 0 < sum(arranged.values()) < 0.4 * sum(direct.values())
    assert baseline.direct["acme-engineering"].read == 0
    assert arranged["acme-docs"] <= direct["acme-docs"]


def test_sums_add_up_and_one_unknown_cost_makes_them_unknown():
    assert CallTotals(4, 1, 5) + CallTotals(6, 2, 7) == CallTotals(10, 3, 12)
    assert (CallTotals(4, 1, 5) + CallTotals(6, 2, None)).nanos is None
    assert (CallTotals(4, 1, None) + CallTotals(6, 2, 7)).nanos is None
    assert (CallTotals(4, 1).hit_rate, CallTotals().hit_rate) == (0.25, 0.0)
