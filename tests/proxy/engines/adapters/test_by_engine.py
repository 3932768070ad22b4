from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.profiles import Engine


def test_every_engine_has_an_adapter_that_knows_its_load():
    assert set(ADAPTERS) == set(Engine)
    assert all(each.metrics.running and each.metrics.waiting for each in ADAPTERS.values())


def test_two_engines_are_started_and_two_are_attached_only():
    assert [engine for engine in Engine if ADAPTERS[engine].can_launch] == ["vllm", "llamacpp"]
