from proxy.catalog.engine_layer import EngineEntry
from proxy.catalog.entries import REGIMES
from proxy.engines.adapters.by_engine import ADAPTERS, catalog_entry
from proxy.engines.profiles import Engine
from tests.fakes.engine_profiles import a_profile


def test_every_engine_has_an_adapter_that_knows_its_load():
    assert set(ADAPTERS) == set(Engine)
    assert all(adapter.metrics.running and adapter.metrics.waiting for adapter in ADAPTERS.values())


def test_two_engines_are_started_and_two_are_attached_only():
    assert [engine for engine in Engine if ADAPTERS[engine].can_launch] == ["vllm", "llamacpp"]


def test_a_profile_is_an_entry_of_the_catalog_with_its_replicas_and_cache_rules():
    profile = a_profile('replicas = 2\nregion = "eu"\nmax_model_len = 4096\nkey_env = "GPU_KEY"')

    assert catalog_entry(profile, "engines.toml") == EngineEntry(
        profile="house",
        file="engines.toml",
        line=1,
        served_name="m.gguf",
        base_urls=("http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1"),
        upstream={
            "provider": "vllm",
            "region": "eu",
            "key_env": "GPU_KEY",
            "serves_responses": True,
            "continues": "continue_final_message",
            "shares_cache": False,
            "hints": (),
            "gpus": 1,
            "price_per_gpu_hour": "",
        },
        route={"regime": "block-chain", "block": 16, "window": 4_096},
    )


def test_the_price_of_a_profile_s_gpus_goes_into_the_catalog():
    profile = a_profile('tensor_parallel = 4\nprice_per_gpu_hour = "2.49"')
    entry = catalog_entry(profile, "engines.toml")

    assert (entry.upstream["gpus"], entry.upstream["price_per_gpu_hour"]) == (4, "2.49")


def test_without_prefix_caching_a_profile_has_no_cache_rules():
    assert catalog_entry(a_profile("prefix_caching = false"), "engines.toml").route["regime"] == ""


def test_the_cache_rules_of_every_engine_are_known_to_the_catalog():
    assert {adapter.regime for adapter in ADAPTERS.values()} <= set(REGIMES)
