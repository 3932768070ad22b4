"""Cheaper models that ladders name: which are a step, and what they would save."""

from dataclasses import replace
from typing import Any

import pytest

from dashboards.reports import ALL_CALLS
from dashboards.views.steps import NextStep
from proxy.catalog.catalog import Catalog
from proxy.store.sql.database import read_transaction
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.sql.views.setup.cheaper_models import cheaper_model_steps, main_models
from proxy.store.store import Store
from slo.objectives.objective import Metric, Objective
from slo.policies.small_first import SmallFirst
from slo.price import PricePeriod, PriceSheet, PriceStep, Tariff, TokenRates
from slo.usage import Usage
from tests.fakes.chaos import two_model_catalog
from tests.fakes.ledger import book
from tests.fakes.receipts import START, a_receipt

DAY = 86_400
DOLLAR = 10**9
PERIOD = (int(START) - DAY, int(START) + DAY)
NAMES = {"team_0": "acme"}


def ladder(*levels: str, **fields: Any) -> Objective:
    return Objective(
        name="fast", metric=Metric.TTFT, target=0.95, under=0.5, ladder=levels, **fields
    )


def keep(store: Store, count: int = 20, **fields: Any) -> None:
    usual = {
        "team": "team_0", "feature": "chat", "model": "m", "usage": Usage(input=1_000),
        "list_nanos": DOLLAR, "cost_nanos": DOLLAR,
    }  # fmt: skip
    start = store.ledger.count_calls()
    book(store._engine, [a_receipt(start + n, **(usual | fields)) for n in range(count)], 0.5)


def steps(
    store: Store, *objectives: Objective, catalog: Catalog | None = None, **rules: Any
) -> list[NextStep]:
    with read_transaction(store._engine, is_snapshot=True) as connection:
        uses = main_models(connection, PERIOD, ALL_CALLS)
    fast_path = FastPathRules(objectives=objectives, **rules)
    catalog = catalog or two_model_catalog()
    return list(cheaper_model_steps(uses, fast_path, catalog, NAMES, START))


def test_a_model_of_a_ladder_saves_the_difference_of_list_prices(store: Store) -> None:
    keep(store)
    (step,) = steps(store, ladder("elsewhere", "small", "shed", team="acme", feature="chat"))

    assert step.saved_nanos is not None
    assert 19 * DOLLAR < step.saved_nanos < 20 * DOLLAR
    assert step.nanos_per_1k_calls == step.saved_nanos * 50
    assert (step.kind, step.bound, step.title) == (
        "cheaper_model",
        "at most",
        "Try small first for chat",
    )
    assert step.effect.startswith("Answers may differ from m's")


def with_small(**changes: Any) -> Catalog:
    """The catalog whose small model has a route with these fields."""
    catalog = two_model_catalog()
    small = catalog.models["small"]
    routes = (replace(small.routes[0], **changes),)
    return replace(catalog, models={**catalog.models, "small": replace(small, routes=routes)})


def test_a_model_without_a_route_that_can_answer_is_no_step(store: Store) -> None:
    keep(store)

    assert steps(store, ladder("small"), catalog=with_small(is_disabled=True)) == []
    assert steps(store, ladder("small"), keyed_upstreams=frozenset({"other"})) == []


def test_prices_are_those_of_prompts_of_mean_size(store: Store) -> None:
    keep(store, list_nanos=1_500_000, cost_nanos=1_500_000)
    cheap, dear = (TokenRates(input=nanos) for nanos in (10**9, 2 * 10**9))
    for above, saved in ((1_000, 10_000_000), (999, None)):
        sheet = PriceSheet(rates=cheap, steps=(PriceStep(above=above, rates=dear),))
        period = PricePeriod(since=float("-inf"), sheets={"": sheet})
        catalog = with_small(tariff=Tariff(periods=(period,)))
        found = [step.saved_nanos for step in steps(store, ladder("small"), catalog=catalog)]
        assert found == ([] if saved is None else [saved])


@pytest.mark.parametrize(
    "objectives",
    [
        (),
        (ladder("elsewhere", "shed"),),
        (ladder("unknown"),),
        (ladder("small", team="other"),),
        (ladder("small", feature="search"),),
    ],
)
def test_without_a_known_model_in_a_ladder_about_the_feature_there_is_no_step(
    store: Store, objectives: tuple[Objective, ...]
) -> None:
    keep(store)

    assert steps(store, *objectives) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"list_nanos": 1, "cost_nanos": 1},
        {"list_nanos": None, "cost_nanos": None},
        {"count": 19},
    ],
)
def test_calls_that_are_cheap_unpriced_or_few_are_no_step(
    store: Store, fields: dict[str, Any]
) -> None:
    keep(store, **fields)

    assert steps(store, ladder("small")) == []


def test_a_feature_of_several_models_has_a_step_where_one_has_over_half_its_calls(
    store: Store,
) -> None:
    keep(store)
    keep(store, model="other")
    assert steps(store, ladder("small")) == []

    keep(store, count=1)
    assert [step.cost_nanos for step in steps(store, ladder("small"))] == [21 * DOLLAR]


def test_a_feature_that_asks_a_small_model_first_has_no_step(store: Store) -> None:
    keep(store)

    assert steps(store, ladder("small"), small_first=(SmallFirst(name="a", small="s"),)) == []
