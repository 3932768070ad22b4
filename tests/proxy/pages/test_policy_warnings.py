"""Policies and models that are valid and may not do what was meant."""

from dataclasses import replace

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.catalog.model_aliases import ModelAliases
from proxy.pages.policy_warnings import Accounts, policy_warnings
from slo.budgets.ceiling import Ceiling
from slo.policies.file import Policies
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.admission_harness import budget
from tests.fakes.call_dependencies import route
from tests.fakes.objectives import objective

KNOWN = replace(
    route("one"), window=1000, max_output=100, can=frozenset({"tools", "schema", "vision"})
)


def catalog(**models: tuple[Route, ...]) -> Catalog:
    catalog = {name: Model(id=name, routes=routes) for name, routes in models.items()}
    return Catalog(models=catalog, upstreams={}, default=KNOWN)


#: Dollars per million output tokens; None where no price is known.
PRICES_BY_MODEL = {"large": 25, "medium": 10, "small": 5, "tiny": 1, "own": None}


def priced_route(usual: Route, output: int | None) -> Route:
    """The route with this price of a million output tokens, in dollars; None for none."""
    if output is None:
        return replace(usual, tariff=None)
    sheet = PriceSheet(rates=TokenRates(input=10**9, output=output * 10**9))
    return replace(usual, tariff=Tariff(periods=(PricePeriod(sheets={"": sheet}),)))


def test_a_ladder_leads_nowhere_where_no_model_has_two_routes():
    policies = Policies(objectives=(objective(ladder=("elsewhere", "shed")), objective(name="p")))

    assert policy_warnings(policies, catalog(m=(KNOWN,)), None) == [
        (
            'objectives.o.ladder: no model has a second route, so "elsewhere" moves no call;'
            " give one `routes` in the catalog"
        )
    ]
    assert policy_warnings(policies, catalog(m=(KNOWN, KNOWN)), None) == []


def test_an_upstream_to_which_no_model_goes_is_noted():
    idle = route("gpu").upstream
    made = replace(catalog(m=(KNOWN,)), upstreams={"gpu": idle, "one": KNOWN.upstream})

    assert policy_warnings(Policies(), made, None) == [
        (
            "no model goes to the upstream gpu, only calls that ask for gpu/MODEL;"
            ' write [[models]] with an id and upstream = "gpu" in the catalog'
        )
    ]
    assert policy_warnings(Policies(), replace(made, default=route("gpu")), None) == []


def test_models_that_are_sold_at_no_known_price_are_listed_once():
    sold = replace(KNOWN, tariff=None, upstream=replace(KNOWN.upstream, key_env="KEY"))
    own = replace(KNOWN, tariff=None)
    many = {f"m{n}": (sold,) for n in range(12)}

    (policy_warning,) = policy_warnings(
        Policies(), catalog(dear=(KNOWN, sold), own=(own,), **many), None
    )
    assert policy_warning == (
        "no price is known of m0, m1, m2, m3, m4, m5, m6, m7, m8, m9 and 2 more: what their calls"
        " cost is unknown, and hard budgets of dollars refuse them; write `price` in the catalog"
    )
    (policy_warning,) = policy_warnings(Policies(), catalog(m=(sold,)), None)
    assert policy_warning.startswith("no price is known of m: ")


def test_a_model_of_which_little_is_said_takes_few_calls():
    policies = Policies(
        objectives=(objective(ladder=("elsewhere", "small-2026-01-31", "none", "shed")),),
        ceilings=(Ceiling(name="c", limit=1, cheaper=("small",)),),
    )
    bare = replace(KNOWN, window=None, max_output=None, can=None)
    warnings = policy_warnings(policies, catalog(small=(bare, bare)), None)

    assert warnings[:3] == [
        (
            "objectives.o.ladder: the catalog does not state the `window` of small, so it takes"
            " no calls; write it there"
        ),
        (
            "objectives.o.ladder: the catalog does not state what small `can` do, so it takes"
            " none with tools, schemas or images; write it there"
        ),
        (
            "objectives.o.ladder: the catalog does not state the `max_output` of small, so it"
            " takes none that limit their output; write it there"
        ),
    ]
    assert len(warnings) == 6
    assert warnings[3].startswith("ceilings.c.cheaper: the catalog does not state the `window`")
    assert policy_warnings(policies, catalog(small=(bare, KNOWN)), None) == []


def test_a_policy_for_a_team_that_does_not_exist_is_reported():
    policies = Policies(
        budgets=(
            budget(of="acmee"),
            budget(name="every"),
            budget(name="none", of=""),
            budget(name="f", scope="feature", of="acmee"),
        ),
        ceilings=(Ceiling(name="c", team="acme", limit=1), Ceiling(name="d", team="z", limit=1)),
        objectives=(objective(team="acme"), objective(name="p", team="acm")),
    )

    assert policy_warnings(policies, catalog(), Accounts(["acme"])) == [
        "budgets.b.of: there is no team acmee; did you mean acme?",
        "ceilings.d.team: there is no team z; `thriftgate team list` shows them",
        "objectives.p.team: there is no team acm; did you mean acme?",
    ]
    assert policy_warnings(policies, catalog(), None) == []


def test_a_budget_for_a_key_that_does_not_exist_is_reported():
    policies = Policies(
        budgets=(budget(scope="key", of="nobody"), budget(name="c", scope="key", of="k1"))
    )

    assert policy_warnings(policies, catalog(), Accounts(keys=["k1"])) == [
        "budgets.b.of: there is no key nobody; `thriftgate key list` shows them"
    ]


def test_a_ladder_to_a_dearer_model_is_reported():
    models = catalog(
        **{name: (priced_route(KNOWN, output),) for name, output in PRICES_BY_MODEL.items()}
    )
    policies = Policies(
        objectives=(
            objective(name="up", ladder=("large",)),
            objective(name="down", ladder=("small", "tiny", "own")),
            objective(name="up-again", ladder=("tiny", "small")),
        )
    )

    assert policy_warnings(policies, models, None) == [
        (
            "objectives.up.ladder: output of large costs more than that of 3 of the other 3 models:"
            " calls become dearer where they fall back to it"
        ),
        (
            "objectives.up-again.ladder: output of small costs more than that of tiny:"
            " calls become dearer where they fall back to it"
        ),
    ]


def test_aliases_of_a_team_that_does_not_exist_are_reported():
    tables = {name: ModelAliases({"fast": "m"}) for name in ("acme", "acmee", "*")}
    aliased = replace(catalog(m=(KNOWN,)), team_aliases=tables)

    assert policy_warnings(Policies(), aliased, Accounts(["acme"])) == [
        "teams.acmee.model_aliases: there is no team acmee; did you mean acme?"
    ]
