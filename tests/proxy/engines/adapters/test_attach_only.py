import pytest

from proxy.engines.adapters.attach_only import SGLANG, TENSORRT_LLM
from tests.fakes.engine_profiles import a_profile


def test_sglang_has_its_metrics_beside_its_api():
    profile = a_profile('replicas = ["http://gpu:30000"]', engine="sglang")

    assert SGLANG.urls(profile).metrics_url == "http://gpu:30000/metrics"
    assert SGLANG.metrics.cached_prompt_tokens == ("sglang:cached_tokens_total",)


def test_tensorrt_llm_has_its_metrics_at_a_path_of_its_own():
    profile = a_profile('replicas = ["http://gpu:8000/v1"]', engine="tensorrt-llm")

    assert TENSORRT_LLM.urls(profile).metrics_url == "http://gpu:8000/prometheus/metrics"


@pytest.mark.parametrize("adapter", [SGLANG, TENSORRT_LLM])
def test_attach_only_engines_cannot_be_launched_and_say_how_to_start_them(adapter):
    assert not adapter.can_launch
    assert "metrics" in adapter.attach_needs


def test_attach_only_engines_count_too_little_for_advice_on_speculation():
    assert SGLANG.metrics.missing_for_advice() == (
        "seconds of decode",
        "draft tokens",
        "accepted tokens",
    )
    assert TENSORRT_LLM.metrics.missing_for_advice() == ("drafts",)
