"""vLLM: ``vllm serve`` with the flags of versions 0.20 to 0.33.

Source: the argument parsers of vLLM 0.20.0, 0.23.0, 0.27.1, 0.29.0, 0.31.0, 0.32.0 and 0.33.0, read
2026-11-24; https://docs.vllm.ai/en/latest/features/nixl_connector_usage.html (2026-11).
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from proxy.engines.adapters.adapter import (
    SPECULATION_REASONS,
    CommandLine,
    EngineAdapter,
    MetricNames,
    Misfit,
    parse_version,
)
from proxy.engines.adapters.launch_command import SPECULATION, FlagReasons, LaunchFlag, launch_flags
from proxy.engines.profiles import (
    DisaggregatedRole,
    Engine,
    EngineProfile,
    KVDtype,
    ServingGoal,
    Speculation,
    SpeculativeMethod,
)

_Row = tuple[str, object] | LaunchFlag
_OLDEST: Final = "0.20"
_NEWEST: Final = "0.33"
#: The first version that was seen to have it; all else is in every version of the range.
_PER_REQUEST_METRICS_SINCE: Final = (0, 27)
_INT4_KV_SINCE: Final = (0, 27)
_SPEC_METRICS_SINCE: Final = (0, 29)

_KV_DTYPES: Final = {
    KVDtype.FP8: ("fp8", "Halves KV memory; pays from contexts of about 7k tokens on."),
    KVDtype.INT8: ("int8_per_token_head", "Halves KV memory on GPUs without fp8."),
    KVDtype.INT4: ("int4_per_token_head", "Quarters KV memory; check answers before rollout."),
}
_GOALS: Final = {
    ServingGoal.LATENCY: ("interactivity", "Tunes kernels and graphs for small batches."),
    ServingGoal.THROUGHPUT: ("throughput", "Tunes kernels and graphs for large batches."),
}
#: Batch limits of a goal where the profile states none: sequences, tokens per step.
_BATCH_LIMITS: Final = {
    ServingGoal.LATENCY: (32, 4_096),
    ServingGoal.THROUGHPUT: (512, 16_384),
    ServingGoal.BALANCED: (0, 0),
}
_KV_ROLES: Final = {
    DisaggregatedRole.PREFILL: "kv_producer",
    DisaggregatedRole.DECODE: "kv_consumer",
}
_SIDE_CHANNEL_PORT: Final = 5_600
_REASONS: Final[FlagReasons] = {
    "--model": ("The weights it serves.", ""),
    "--served-model-name": ("Calls ask for the model by this name.", ""),
    "--host": ("The gateway reaches the replica there.", ""),
    "--quantization": ("Smaller weights: less memory, and less to read per decode step.", ""),
    "--cpu-offload-gb": (
        "Keeps so many GiB of weights in host memory; each step reads them over PCIe.",
        "",
    ),
    "--max-model-len": ("Longest prompt and answer together; less needs less KV memory.", ""),
    "--enable-prefix-caching": ("A prefix seen before is not computed again.", "prefix caching"),
    "--no-enable-prefix-caching": ("The profile turns prefix caching off.", ""),
    "--kv-offloading-size": (
        "KV blocks that leave the GPU stay readable in so many GiB of host memory.",
        "KV offload",
    ),
    "--kv-events-config": (
        "Says which blocks it holds, so that calls are routed by what is cached.",
        "KV events",
    ),
    "--max-num-seqs": ("Sequences in a batch: more serve more calls, each of them slower.", ""),
    "--max-num-batched-tokens": (
        "Tokens per step: fewer keep streams even, more finish prefill sooner.",
        "",
    ),
    "--enable-chunked-prefill": (
        "Long prompts are split, so that running streams go on meanwhile.",
        "chunked prefill",
    ),
    "--no-enable-chunked-prefill": ("The profile turns chunked prefill off.", ""),
    "--stream-interval": (
        "Streams 8 tokens at a time, which costs the processor less.",
        "stream interval",
    ),
    "--tensor-parallel-size": ("Splits each layer over so many GPUs.", ""),
    "--pipeline-parallel-size": ("Splits the layers into stages.", ""),
    "--data-parallel-size": ("Runs so many engines behind one port.", ""),
    "--enable-auto-tool-choice": ("Reads the model's tool calls out of its text.", ""),
    "--reasoning-parser": ("Reads the model's reasoning out of its text.", ""),
    "--enable-prompt-tokens-details": (
        "Answers say how many prompt tokens were read from the cache.",
        "cached tokens in answers",
    ),
    "--enable-per-request-metrics": (
        "Answers say the time in queue, prefill and decode.",
        "times in answers",
    ),
    "--per-request-spec-decode-metrics": (
        "Answers say how many draft tokens were accepted.",
        "acceptance in answers",
    ),
    "--shutdown-timeout": ("Running calls get this many seconds when the replica stops.", ""),
}


def _command_line(profile: EngineProfile, replica: int, python: str) -> CommandLine:
    program = profile.program or ("vllm", "serve")
    serves = program[-1] == "serve"
    rows = [
        ("--model", not serves and profile.model),
        ("--served-model-name", profile.served_name),
        ("--host", (profile.host, "--port", profile.port + replica)),
        ("--quantization", profile.quantization),
        ("--cpu-offload-gb", profile.cpu_offload_gb),
        ("--max-model-len", profile.max_model_len),
        *_kv_rows(profile, replica),
        *_batch_rows(profile),
        ("--tensor-parallel-size", profile.tensor_parallel > 1 and profile.tensor_parallel),
        ("--pipeline-parallel-size", profile.pipeline_parallel > 1 and profile.pipeline_parallel),
        ("--data-parallel-size", profile.data_parallel > 1 and profile.data_parallel),
        *_speculation_rows(profile),
        *_api_rows(profile),
        ("--shutdown-timeout", str(profile.drain_seconds)),
    ]
    return (*program, profile.model) if serves else program, launch_flags(_REASONS, rows)


def _kv_rows(profile: EngineProfile, replica: int) -> Iterator[_Row]:
    if profile.kv_dtype in _KV_DTYPES:
        dtype, reason = _KV_DTYPES[profile.kv_dtype]
        yield LaunchFlag(("--kv-cache-dtype", dtype), reason)
    yield "--enable-prefix-caching", profile.prefix_caching
    yield "--no-enable-prefix-caching", not profile.prefix_caching
    yield "--kv-offloading-size", profile.kv_offload_gb
    if profile.kv_events:
        yield "--kv-events-config", json.dumps(_kv_events_config(profile, replica))
    if profile.role:
        transfer = {"kv_connector": "NixlConnector", "kv_role": _KV_ROLES[profile.role]}
        reason = f"It serves {profile.role} alone; KV blocks pass between replicas over NIXL."
        yield LaunchFlag(("--kv-transfer-config", json.dumps(transfer)), reason)


def _kv_events_config(profile: EngineProfile, replica: int) -> dict[str, Any]:
    """The keys of ``--kv-events-config``. An address is bound where it names any host."""
    address = profile.kv_events[replica]
    if address.startswith("tcp://"):
        address = f"tcp://*:{address.rpartition(':')[2]}"
    return {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": address}


def _batch_rows(profile: EngineProfile) -> Iterator[_Row]:
    if profile.goal in _GOALS:
        mode, reason = _GOALS[profile.goal]
        yield LaunchFlag(("--performance-mode", mode), reason, "performance mode")
    goal_sequences, goal_tokens = _BATCH_LIMITS[profile.goal]
    if not profile.chunked_prefill:
        goal_tokens = 0  # a whole prompt has to fit into a step
    sequences = profile.max_sequences or goal_sequences
    tokens = profile.max_batched_tokens or max(goal_tokens, sequences if goal_tokens else 0)
    yield "--max-num-seqs", sequences
    yield "--max-num-batched-tokens", tokens
    yield "--enable-chunked-prefill", profile.chunked_prefill
    yield "--no-enable-chunked-prefill", not profile.chunked_prefill
    yield "--stream-interval", profile.goal is ServingGoal.THROUGHPUT and "8"


def _speculation_rows(profile: EngineProfile) -> Iterator[_Row]:
    if profile.speculation:
        settings = json.dumps(_speculative_config(profile.speculation))
        reason = SPECULATION_REASONS[profile.speculation.method]
        yield LaunchFlag(("--speculative-config", settings), reason, SPECULATION)


def _speculative_config(speculation: Speculation) -> dict[str, Any]:
    """The keys of ``--speculative-config``."""
    config: dict[str, Any] = {
        "method": str(speculation.method),
        "num_speculative_tokens": speculation.tokens,
    }
    if speculation.draft:
        config["model"] = speculation.draft
    if speculation.method is SpeculativeMethod.NGRAM:
        config["prompt_lookup_min"] = speculation.ngram_min
        config["prompt_lookup_max"] = speculation.ngram_max
    return config


def _api_rows(profile: EngineProfile) -> Iterator[_Row]:
    version, is_hinted = _version(profile), "vllm" in profile.hints
    parser = profile.tool_call_parser
    yield "--enable-auto-tool-choice", ("--tool-call-parser", parser) if parser else ()
    yield "--reasoning-parser", profile.reasoning_parser
    if profile.goal is ServingGoal.LATENCY or is_hinted:
        reason = "Calls with a priority go first; others keep their order."
        feature = "" if is_hinted else "priority"
        yield LaunchFlag(("--scheduling-policy", "priority"), reason, feature)
    yield "--enable-prompt-tokens-details", True
    yield "--enable-per-request-metrics", version >= _PER_REQUEST_METRICS_SINCE
    has_drafts = profile.speculation is not None and version >= _SPEC_METRICS_SINCE
    yield "--per-request-spec-decode-metrics", has_drafts and "summary"


def _version(profile: EngineProfile) -> tuple[int, ...]:
    return parse_version(profile.version or _NEWEST)


def _env(profile: EngineProfile, replica: int) -> dict[str, str]:
    """Usage statistics are off, and each replica of several has GPUs and a port of its own."""
    env = {"VLLM_NO_USAGE_STATS": "1"}
    if profile.replicas > 1 and profile.gpus_per_replica:
        first = replica * profile.gpus_per_replica
        gpus = range(first, first + profile.gpus_per_replica)
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    if profile.role:
        port = _SIDE_CHANNEL_PORT + replica * profile.data_parallel
        env["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(port)
    return env


def _misfits(profile: EngineProfile) -> Iterator[Misfit]:
    if profile.kv_dtype is KVDtype.INT4 and _version(profile) < _INT4_KV_SINCE:
        fix = 'write kv_dtype = "fp8", or run vLLM 0.27 or newer'
        yield Misfit("kv_dtype", f"is not in vLLM {profile.version}", fix)
    tokens = profile.max_batched_tokens
    if tokens and tokens < profile.max_sequences:
        fix = f"write {profile.max_sequences} or more, or lower max_sequences"
        yield Misfit("max_batched_tokens", "is below max_sequences", fix)
    if tokens and not profile.chunked_prefill and tokens < profile.max_model_len:
        fix = f"write {profile.max_model_len} or more, or chunked_prefill = true"
        yield Misfit("max_batched_tokens", "is below max_model_len without chunked prefill", fix)
    if profile.threads:
        fix = 'leave it out, and write env = { OMP_NUM_THREADS = "4" }'
        yield Misfit("threads", "is for llama.cpp alone", fix)
    if profile.role and profile.kv_offload_gb:
        fix = "leave one of the two out"
        yield Misfit("kv_offload_gb", "takes the place of the KV transfer of its role", fix)


VLLM: Final = EngineAdapter(
    engine=Engine.VLLM,
    oldest_version=_OLDEST,
    newest_version=_NEWEST,
    attach_needs="--enable-prompt-tokens-details --enable-per-request-metrics",
    regime="block-chain",
    block_tokens=16,
    serves_responses=True,
    continues="continue_final_message",
    metrics=MetricNames(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        prefix_hits=("vllm:prefix_cache_hits_total",),
        prompt_tokens=("vllm:prompt_tokens_total",),
        cached_prompt_tokens=("vllm:prompt_tokens_cached_total",),
        generation_tokens=("vllm:generation_tokens_total",),
        preemptions=("vllm:num_preemptions_total",),
        spec_drafts=("vllm:spec_decode_num_drafts_total",),
        spec_draft_tokens=("vllm:spec_decode_num_draft_tokens_total",),
        spec_accepted_tokens=("vllm:spec_decode_num_accepted_tokens_total",),
        queue_seconds=("vllm:request_queue_time_seconds",),
        prefill_seconds=("vllm:request_prefill_time_seconds",),
        decode_seconds=("vllm:request_decode_time_seconds",),
        cache_config=("vllm:cache_config_info",),
    ),
    build_command_line=_command_line,
    build_env=_env,
    find_misfits=_misfits,
)
