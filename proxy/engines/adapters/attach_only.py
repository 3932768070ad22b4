"""SGLang and TensorRT-LLM, which others start: where they answer, and the names of their metrics.

Source: ``sglang/srt/observability/metrics_collector.py`` of SGLang 0.5.23, read 2026-11-24; for
``trtllm-serve`` https://nvidia.github.io/TensorRT-LLM/examples/prometheus_metrics.html (2026) and
the docstring of ``tensorrt_llm/metrics/collector.py``, read 2026-11-24. Neither was run. Releases
of TensorRT-LLM differ in the names of two gauges, so both names are listed. Its ``cache_salt``
came with NVIDIA/TensorRT-LLM#7106 (2025-09), and release 1.1.

Where one of them is to be started by the gateway one day, it gets a module of its own beside
``vllm.py``, with a command line and a reason for each flag.
"""

from typing import Final

from proxy.engines.adapters.adapter import EngineAdapter, MetricNames
from proxy.engines.profiles import Engine

SGLANG: Final = EngineAdapter(
    engine=Engine.SGLANG,
    oldest_version="0.5.23",
    newest_version="0.5.23",
    attach_needs="--enable-metrics --enable-cache-report",
    continues="continue_final_message",
    metrics=MetricNames(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_usage=("sglang:token_usage",),
        prefix_hits=("sglang:cached_tokens_total",),
        prompt_tokens=("sglang:prompt_tokens_total",),
        cached_prompt_tokens=("sglang:cached_tokens_total",),
        generation_tokens=("sglang:generation_tokens_total",),
        preemptions=("sglang:num_retracted_requests_total",),
        # It counts verified drafts, and neither their tokens nor those accepted.
        spec_drafts=("sglang:spec_verify_calls_total",),
        queue_seconds=("sglang:queue_time_seconds",),
        cache_tokens=("sglang:max_total_num_tokens",),
    ),
)

TENSORRT_LLM: Final = EngineAdapter(
    engine=Engine.TENSORRT_LLM,
    oldest_version="1.1",
    newest_version="1.4",
    cache_salt_since="1.1",
    attach_needs="return_perf_metrics: true and enable_iter_perf_stats: true",
    metrics_path="/prometheus/metrics",
    metrics=MetricNames(
        running=("trtllm_num_requests_running", "trtllm_num_active_requests"),
        waiting=("trtllm_num_requests_waiting", "trtllm_server_queue_length"),
        kv_usage=("trtllm_kv_cache_utilization",),
        prefix_hits=("trtllm_prompt_cached_tokens_total",),
        prompt_tokens=("trtllm_prompt_tokens_total",),
        cached_prompt_tokens=("trtllm_prompt_cached_tokens_total",),
        # It counts paused requests per step only, so there are no preemptions.
        generation_tokens=("trtllm_generation_tokens_total",),
        spec_draft_tokens=("trtllm_spec_decode_drafted_tokens_total",),
        spec_accepted_tokens=("trtllm_spec_decode_accepted_tokens_total",),
        queue_seconds=("trtllm_request_queue_time_seconds",),
        prefill_seconds=("trtllm_request_prefill_time_seconds",),
        decode_seconds=("trtllm_request_decode_time_seconds",),
    ),
)
