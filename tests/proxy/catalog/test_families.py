"""Names outside the catalog go where they belong, at no price but one that is assumed."""

from collections.abc import Collection
from fractions import Fraction
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.catalog.load import load
from proxy.services.budgets.cost_bounds.reservation_requests import is_uncountable
from slo.budgets.budget import UnpricedPolicy
from slo.toml.problems import InvalidFile
from tests.fakes.call_dependencies import call

SHIPPED = resources.files("proxy.catalog").joinpath("models.toml").read_text(encoding="utf8")
ALL = load(SHIPPED, None)
ALL_NAMES = {family.names for family in ALL.passing.families}


def route_of_unlisted(name: str, catalog: Catalog = ALL) -> Route | None:
    unlisted = catalog.unlisted_model(name)
    return None if unlisted is None else unlisted.routes[0]


def route_of_listed(name: str, user: str | None = None) -> Route:
    listed = load(SHIPPED, user).find(name)
    assert listed is not None
    return listed.routes[0]


@pytest.mark.parametrize(
    ("name", "route"),
    [
        ("gpt-4", "openai/gpt-4"),
        ("gpt-3.5-turbo", "openai/gpt-3*"),
        ("gpt-7-nova", "openai/gpt-*"),
        ("gpt-6.2-nova", "openai/gpt-6*"),
        ("o1", "openai/o1"),
        ("o1-pro", "openai/o1-*"),
        ("codex-mini-latest", "openai/codex-*"),
        ("claude-opus-5-7-mini", "anthropic/claude-opus-5*"),
        ("claude-3-haiku-20240307", "anthropic/claude-3*"),
        ("gemini-5-ultra", "google/gemini-*"),
        ("grok-5-mini", "xai/grok-*"),
        ("ft:gpt-none:acme::abc", "openai/ft:{base}:*"),
        ("ft:open-mistral-7b:587a6b29:20240514:7e773925", "mistral/ft:open-mistral-*"),
    ],
)
def test_an_unlisted_name_passes_to_its_providers_upstream_unpriced_and_unchanged(name, route):
    model_route = route_of_unlisted(name)

    assert model_route is not None
    assert (model_route.name, model_route.tariff, model_route.model) == (route, None, "")


@pytest.mark.parametrize(
    ("name", "route", "before"),
    [
        ("gpt-6.3-sol", "openai/gpt-6*", "gpt-6.2-sol"),
        ("gpt-6.3-sol-2027-01-05", "openai/gpt-6*", "gpt-6.2-sol"),
        ("gpt-7-luna", "openai/gpt-*", "gpt-6-luna"),
        ("gpt-5.5-mini", "openai/gpt-5.5*", "gpt-5.4-mini"),
        ("claude-sonnet-5-6", "anthropic/claude-sonnet-*", "claude-sonnet-5-5"),
        ("claude-opus-6", "anthropic/claude-*", "claude-opus-5-5"),
        ("gemini-3.9-flash", "google/gemini-*", "gemini-3.8-flash"),
        ("grok-5", "xai/grok-*", "grok-4.7"),
        ("mistral-large-5", "mistral/mistral-*", "mistral-large-4"),
        ("deepseek-v5-pro", "deepseek/deepseek-*", "deepseek-v4-pro"),
    ],
)
def test_a_lines_newest_member_has_its_predecessors_price_and_says_so(name, route, before):
    unlisted, predecessor = route_of_unlisted(name), route_of_listed(before)

    assert unlisted is not None
    assert (unlisted.name, unlisted.model, unlisted.assumed_price_of) == (route, "", before)
    assert unlisted.tariff is not None
    assert (unlisted.tariff, unlisted.window) == (predecessor.tariff, predecessor.window)


def test_a_name_behind_its_upstreams_has_its_predecessors_price_too():
    route = route_of_unlisted("openai/gpt-6.3-sol")

    assert route is not None
    assert (route.model, route.assumed_price_of) == ("gpt-6.3-sol", "gpt-6.2-sol")


NEWEST = '[[models]]\nid = "gpt-6.3-sol"\nupstream = "openai"\n'


@pytest.mark.parametrize(("more", "discount"), [("", 0), ('discount = "0.12"\n', Fraction("0.12"))])
def test_a_listed_model_without_a_price_has_its_predecessors_less_its_own_discount(more, discount):
    route = route_of_listed("gpt-6.3-sol", NEWEST + more)

    assert route.assumed_price_of == "gpt-6.2-sol"
    assert route.tariff is not None
    assert route.tariff.discount == discount
    assert load(SHIPPED, NEWEST + more).assumed_prices == {"gpt-6.3-sol": "gpt-6.2-sol"}


@pytest.mark.parametrize(
    "user",
    [
        NEWEST + 'price = "unknown"\n',
        NEWEST + 'price = { input = "3", output = "15" }\n',
        NEWEST.replace("gpt-6.3-sol", "gpt-6.3-nova"),
        NEWEST.replace("gpt-6.3-sol", "gpt-5-sol"),
        NEWEST.replace("openai", "gpu1") + '[upstreams.gpu1]\nbase_url = "http://gpu1:8000/v1"\n',
    ],
    ids=["said to be unknown", "a price of its own", "another tier", "older", "an own engine"],
)
def test_no_price_is_assumed_of_a_listed_model_that(user):
    assert load(SHIPPED, user).assumed_prices == {}


def test_a_model_that_the_upstream_knows_by_another_name_has_that_ones_predecessor():
    route = route_of_listed(
        "smart", NEWEST.replace("gpt-6.3-sol", "smart") + 'model = "gpt-6.3-sol"\n'
    )

    assert route.assumed_price_of == "gpt-6.2-sol"


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("gpt-5.7-sol", "gpt-5.6-sol"),
        ("gpt-5.6-nova", "gpt-5.6-sol"),
        ("gpt-5.5-pro-2026-12-01", "gpt-5.5-pro"),
        ("gpt-5.5-mini", "gpt-5.5"),
        ("gpt-5.4-micro", "gpt-5.4"),
        ("gpt-5.3-codex-spark", "gpt-5.3-codex"),
        ("gpt-5.1-nano", "gpt-5"),
    ],
)
def test_an_unlisted_gpt_is_asked_as_its_generation_is(name, like):
    route, alike = route_of_unlisted(name), route_of_listed(like)

    assert route is not None
    assert (route.regime, route.traits) == (alike.regime, alike.traits)


@pytest.mark.parametrize(
    "name", ["ft:gpt-4.1:acme::abc", "ft:gpt-4.1-2025-04-14:acme:x:abc", "ft:gpt-4.1:a"]
)
def test_a_fine_tune_takes_its_price_window_and_cache_rules_from_its_base(name):
    base, tuned = route_of_listed("gpt-4.1"), route_of_unlisted(name)

    assert tuned is not None
    assert (tuned.name, tuned.model) == ("openai/ft:gpt-4.1:*", "")
    assert (tuned.window, tuned.regime, tuned.can) == (base.window, base.regime, base.can)
    assert tuned.tariff is not None
    assert tuned.tariff == base.tariff


@pytest.mark.parametrize(
    "name",
    ["", "my-deployment", "anthropic.claude-v9:0", "nobody/gpt-9", "gpt-\n", "gpt-" + "x" * 300],
)
def test_a_name_of_no_family_passes_nowhere(name):
    assert route_of_unlisted(name) is None


@pytest.mark.parametrize("keyed", [(), ("openai",)])
def test_no_name_passes_to_an_upstream_without_its_key(keyed: Collection[str]):
    catalog = ALL.passing_to(keyed)

    assert route_of_unlisted("claude-opus-5-7", catalog) is None
    assert route_of_unlisted("anthropic/claude-opus-5-7", catalog) is None
    assert (route_of_unlisted("gpt-4", catalog) is not None) is bool(keyed)


@pytest.mark.slow
def test_a_model_of_no_family_goes_to_the_default_upstream_if_that_has_a_key():
    user = 'default_upstream = "router"\n[upstreams.router]\nbase_url = "https://r.test/v1"\n'
    catalog = load(SHIPPED, user)

    route = route_of_unlisted("meta/llama-9", catalog)
    assert route is not None
    assert (route.name, route.model, route.tariff) == ("router/*", "", None)
    assert route_of_unlisted("meta/llama-9", catalog.passing_to(["openai"])) is None


def test_a_name_behind_its_upstreams_is_sent_bare_and_priced_where_that_is_listed():
    sold, new = route_of_unlisted("openai/gpt-4.1"), route_of_unlisted("openai/gpt-4")

    assert sold is not None
    assert new is not None
    assert (sold.model, sold.tariff) == ("gpt-4.1", route_of_listed("gpt-4.1").tariff)
    assert (new.name, new.model, new.tariff) == ("openai/gpt-4", "gpt-4", None)


@given(st.text(max_size=40).map("gpt-".__add__))
def test_made_up_names_add_no_route_names(name):
    route = route_of_unlisted(name)

    assert route is None or route.name.partition("/")[2] in ALL_NAMES


def test_a_claude_added_by_hand_takes_its_familys_traits_and_is_named_as_assumed():
    user = '[[models]]\nid = "claude-opus-5-7"\nupstream = "anthropic"\n'
    like, added = route_of_listed("claude-opus-5-5"), route_of_listed("claude-opus-5-7", user)

    assert (added.regime, added.traits) == (like.regime, like.traits)
    assert added.min_cache_tokens == like.min_cache_tokens
    assert added.tariff == like.tariff
    assert load(SHIPPED, user).assumed == ("claude-opus-5-7",)


def test_an_entry_that_states_its_own_traits_and_an_engines_model_assume_nothing():
    user = """
[upstreams.gpu1]
base_url = "http://gpu1:8000/v1"
[[models]]
id = "claude-opus-5-7"
upstream = "anthropic"
regime = "implicit"
traits = ["prefill"]
min_cache_tokens = 1
[[models]]
id = "gpt-mine"
upstream = "gpu1"
"""
    assert route_of_listed("claude-opus-5-7", user).traits == {"prefill"}
    assert route_of_listed("gpt-mine", user).regime == ""
    assert load(SHIPPED, user).assumed == ()


def test_families_of_the_users_file_come_first_and_their_mistakes_are_said():
    mine = '[upstreams.r]\nbase_url = "https://r.test/v1"\n'
    user = f'families = [{{ names = "gpt-*", upstream = "r" }}]\n{mine}'

    route = route_of_unlisted("gpt-4", load(SHIPPED, user))
    assert route is not None
    assert route.name == "r/gpt-*"
    with pytest.raises(InvalidFile, match="has no names or no upstream"):
        load(SHIPPED, 'families = [{ names = "gpt-*" }]')


def test_hard_dollar_budgets_refuse_an_unlisted_model_as_they_refuse_any_unpriced_one():
    route = route_of_unlisted("ft:gpt-4.1:acme::abc")

    assert route is not None
    assert is_uncountable(UnpricedPolicy.OWN, call(b"{}"), route)
    assert not is_uncountable(UnpricedPolicy.ALLOW, call(b"{}"), route)
