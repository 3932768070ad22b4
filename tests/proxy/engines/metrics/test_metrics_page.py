import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.adapters.attach_only import SGLANG
from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.metrics.metrics_page import parse_engine_properties, parse_metrics_page

VLLM_PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 64.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 1e+03
vllm:generation_tokens_total{engine="0",model_name="m"} 7.0
vllm:request_prefill_time_seconds_bucket{engine="0",le="0.3"} 4.0
vllm:request_prefill_time_seconds_sum{engine="0"} 2.5
vllm:request_prefill_time_seconds_count{engine="0"} 4.0
vllm:cache_config_info{block_size="16",cache_dtype="a,b=\\"c",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="50"} 1.0
"""


def test_load_counters_histograms_and_cache_room_of_a_vllm_page_are_read():
    metrics = parse_metrics_page(VLLM_PAGE, VLLM)

    assert metrics.value("running") == 4
    assert metrics.value("waiting") == 2
    assert metrics.value("kv_usage") == 0.75
    assert metrics.value("preemptions") is None
    assert metrics.histograms["prefill_seconds"] == (2.5, 4)
    assert metrics.cache_tokens == 2_400
    assert metrics.shortcoming == ""


def test_the_older_name_of_a_metric_is_read_where_the_newer_is_absent():
    page = "vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.5\n"

    assert parse_metrics_page(page, VLLM).value("kv_usage") == 0.5


def test_a_page_with_the_load_alone_says_what_it_lacks():
    metrics = parse_metrics_page("vllm:num_requests_running 1\n", VLLM)

    assert metrics.has_load
    assert metrics.shortcoming.startswith("its load alone is known: the engine does not export wai")


@pytest.mark.parametrize("page", ["", "another:metric 1\n", "<html>not metrics</html>\n"])
def test_a_page_of_something_else_leaves_the_load_unknown(page):
    metrics = parse_metrics_page(page, VLLM)

    assert not metrics.has_load
    assert metrics.shortcoming.startswith("not even its load is known")


def test_a_wanted_line_that_is_broken_is_an_error():
    with pytest.raises(ValueError, match="could not convert"):
        parse_metrics_page("vllm:num_requests_running{} many\n", VLLM)


def test_values_that_are_no_numbers_count_as_absent():
    assert parse_metrics_page("vllm:num_requests_running NaN\n", VLLM).value("running") is None


def test_sglang_says_its_cache_room_in_a_gauge():
    page = "sglang:num_running_reqs 0\nsglang:max_total_num_tokens 471258\n"

    assert parse_metrics_page(page, SGLANG).cache_tokens == 471_258


def test_llamacpp_says_its_cache_room_and_its_slots_in_its_properties():
    body = b'{"default_generation_settings": {"n_ctx": 4096}, "total_slots": 4}'

    assert parse_engine_properties(body) == (16_384, 4)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"default_generation_settings": {"n_ctx": true}}', b"\xff"]
)
def test_properties_that_say_nothing_of_the_cache_leave_it_unknown(body):
    assert parse_engine_properties(body) is None


_NAMES = st.sampled_from(
    ["llamacpp:requests_processing", "llamacpp:prompt_tokens_total", "x", "# TYPE x gauge", ""]
)


@given(st.lists(st.tuples(_NAMES, st.text('0123456789.{}"=,# e+-\\n', max_size=12)), max_size=8))
def test_any_page_is_read_or_refused_with_a_value_error(lines):
    page = "".join(f"{name}{rest}\n" for name, rest in lines)
    try:
        metrics = parse_metrics_page(page, LLAMACPP)
    except ValueError:
        return

    assert all(isinstance(value, float) for value in metrics.values.values())
