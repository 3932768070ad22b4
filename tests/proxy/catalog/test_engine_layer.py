from dataclasses import replace

import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.engine_layer import EngineEntry
from proxy.catalog.load import load
from slo.replica_cost import ReplicaPrice
from slo.toml.problems import InvalidFile

SHIPPED = """\
default = "openai"
[upstreams.openai]
base_url = "https://api.openai.com/v1"
[[models]]
id = "small"
upstream = "openai"
"""
HOUSE = EngineEntry(
    profile="house-llm",
    file="engines.toml",
    line=7,
    served_name="qwen",
    base_urls=("http://gpu1:8000/v1", "http://gpu2:8000/v1"),
    upstream={
        "provider": "vllm",
        "region": "eu",
        "key_env": "ENGINE_KEY",
        "serves_responses": True,
    },
    route={"regime": "block-chain", "block": 16, "window": 4_096},
)


def catalog(user: str | None = None, *engines: EngineEntry) -> Catalog:
    return load(SHIPPED, user, engines=engines or [HOUSE])


def routes(catalog_: Catalog, model: str) -> list[str]:
    return [route.name for route in catalog_.models[model].routes]


def test_each_replica_is_an_upstream_and_the_model_has_a_route_to_each():
    catalog_ = catalog()
    first, second = catalog_.models["qwen"].routes

    assert routes(catalog_, "qwen") == ["house-llm:0/qwen", "house-llm:1/qwen"]
    assert first.upstream.base_url == "http://gpu1:8000/v1"
    assert second.upstream.base_url == "http://gpu2:8000/v1"
    assert {route.upstream.engine for route in (first, second)} == {"house-llm"}
    assert (first.model, first.regime, first.block, first.window) == (
        "qwen",
        "block-chain",
        16,
        4_096,
    )
    assert not first.upstream.bills_abandoned
    assert (first.upstream.provider, first.upstream.region) == ("vllm", "eu")
    assert first.upstream.key_env == "ENGINE_KEY"
    assert catalog_.models["small"].routes[0].upstream.engine == ""


def test_each_replica_is_paid_by_the_hour():
    priced = replace(HOUSE, upstream={"gpus": 4, "price_per_gpu_hour": "2.49"})
    prices = {route.upstream.replica_price for route in catalog(None, priced).models["qwen"].routes}

    assert prices == {ReplicaPrice(gpus=4, gpu_hour_nanos=2_490_000_000)}


def test_a_replica_on_processors_without_a_price_is_not_paid_by_the_hour():
    assert catalog().models["qwen"].routes[0].upstream.replica_price is None


def test_a_model_may_have_an_engine_beside_a_provider():
    user = '[[models]]\nid = "house"\nroutes = [{ upstream = "engine:house-llm" }, { upstream = '
    catalog_ = catalog(user + '"openai", model = "gpt" }]')
    listed = catalog_.models["house"].routes

    assert [(route.name, route.model) for route in listed] == [
        ("house-llm:0/house", "qwen"),
        ("house-llm:1/house", "qwen"),
        ("openai/house", "gpt"),
    ]


def test_the_users_entry_adds_prices_and_fallbacks_to_an_engines_model():
    user = '[[models]]\nid = "qwen"\nprice = { input = "1", output = "2" }\nfallbacks = ["small"]'
    model = catalog(user).models["qwen"]

    assert [route.upstream.name for route in model.routes] == ["house-llm:0", "house-llm:1"]
    assert all(route.tariff for route in model.routes)
    assert model.fallbacks == ("small",)


def test_the_users_entry_overrides_fields_of_one_replica():
    catalog_ = catalog('[upstreams."house-llm:1"]\nregion = "us"')

    assert catalog_.upstreams["house-llm:1"].region == "us"
    assert catalog_.upstreams["house-llm:1"].base_url == "http://gpu2:8000/v1"
    assert catalog_.upstreams["house-llm:1"].engine == "house-llm"


def test_engines_that_serve_one_model_are_its_routes_together():
    other = replace(HOUSE, profile="other", base_urls=("http://gpu9:8000/v1",))

    assert routes(catalog(None, HOUSE, other), "qwen") == [
        "house-llm:0/qwen",
        "house-llm:1/qwen",
        "other:0/qwen",
    ]


def test_a_reference_to_no_engine_names_the_one_that_was_meant():
    with pytest.raises(InvalidFile) as bad:
        catalog('[[models]]\nid = "house"\nupstream = "engine:house-lm"')

    assert 'names "engine:house-lm", which is not known; did you mean engine:house-llm?' in str(
        bad.value
    )


def test_an_engine_may_not_take_the_name_of_a_model_that_is_shipped():
    with pytest.raises(InvalidFile) as bad:
        catalog(None, replace(HOUSE, served_name="small"))

    assert str(bad.value).startswith('engines.toml:7: engines.house-llm: serves "small", which')


def test_an_address_that_cannot_be_sent_to_is_named_with_the_engines_file():
    with pytest.raises(InvalidFile) as bad:
        catalog(None, replace(HOUSE, base_urls=("http://:0/v1",)))

    assert str(bad.value).startswith("engines.toml:7: engines.house-llm")


def test_replicas_are_shared_by_teams_only_where_their_profile_says_so():
    shared = catalog(None, replace(HOUSE, upstream={"shares_cache": True})).upstreams["house-llm:0"]

    assert shared.shares_cache
    assert not catalog(None, HOUSE).upstreams["house-llm:0"].shares_cache


def test_replicas_take_the_hints_of_their_profile_and_none_without():
    hinted = catalog(None, replace(HOUSE, upstream={"hints": ("vllm", "llm-d")})).upstreams[
        "house-llm:0"
    ]

    assert hinted.hints == {"vllm", "llm-d"}
    assert catalog(None, HOUSE).upstreams["house-llm:0"].hints == frozenset()
