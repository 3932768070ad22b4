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
from proxy.engines.adapters.launch_command import SPECULATION, LaunchFlag
from proxy.engines.profiles import (
    DisaggregatedRole,
    Engine,
    EngineProfile,
    KVDtype,
    ServingGoal,
    Speculation,
    SpeculativeMethod,
)

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


def _command_line(profile: EngineProfile, replica: int, python: str) -> CommandLine:
    program = profile.program or ("vllm", "serve")
    flags = []
    if program[-1] == "serve":
        program = (*program, profile.model)
    else:
        flags.append(LaunchFlag(argv=("--model", profile.model), reason="The weights it serves."))
    flags += [
        LaunchFlag(
            argv=("--served-model-name", profile.served_name),
            reason="Calls ask for the model by this name.",
        ),
        LaunchFlag(
            argv=("--host", profile.host, "--port", str(profile.port + replica)),
            reason="The gateway reaches the replica there.",
        ),
        *_weight_flags(profile),
        *_kv_flags(profile, replica),
        *_batch_flags(profile),
        *_parallel_flags(profile),
        *_speculation_flags(profile),
        *_api_flags(profile),
        *_metrics_flags(profile),
        LaunchFlag(
            argv=("--shutdown-timeout", str(profile.drain_seconds)),
            reason="Running calls get this many seconds when the replica stops.",
        ),
    ]
    return program, flags


def _weight_flags(profile: EngineProfile) -> Iterator[LaunchFlag]:
    if profile.quantization:
        yield LaunchFlag(
            argv=("--quantization", profile.quantization),
            reason="Smaller weights: less memory, and less to read per decode step.",
        )
    if profile.cpu_offload_gb:
        yield LaunchFlag(
            argv=("--cpu-offload-gb", f"{profile.cpu_offload_gb:f}"),
            reason="Keeps so many GiB of weights in host memory; each step reads them over PCIe.",
        )
    if profile.max_model_len:
        yield LaunchFlag(
            argv=("--max-model-len", str(profile.max_model_len)),
            reason="Longest prompt and answer together; less needs less KV memory.",
        )


def _kv_flags(profile: EngineProfile, replica: int) -> Iterator[LaunchFlag]:
    if profile.kv_dtype in _KV_DTYPES:
        dtype, reason = _KV_DTYPES[profile.kv_dtype]
        yield LaunchFlag(argv=("--kv-cache-dtype", dtype), reason=reason)
    if profile.prefix_caching:
        yield LaunchFlag(
            argv=("--enable-prefix-caching",),
            reason="A prefix seen before is not computed again.",
            feature="prefix caching",
        )
    else:
        yield LaunchFlag(
            argv=("--no-enable-prefix-caching",), reason="The profile turns prefix caching off."
        )
    if profile.kv_offload_gb:
        yield LaunchFlag(
            argv=("--kv-offloading-size", f"{profile.kv_offload_gb:f}"),
            reason="KV blocks that leave the GPU stay readable in so many GiB of host memory.",
            feature="KV offload",
        )
    if profile.kv_events:
        yield LaunchFlag(
            argv=("--kv-events-config", json.dumps(_kv_events_config(profile, replica))),
            reason="Says which blocks it holds, so that calls are routed by what is cached.",
            feature="KV events",
        )
    if profile.role:
        transfer = {"kv_connector": "NixlConnector", "kv_role": _KV_ROLES[profile.role]}
        yield LaunchFlag(
            argv=("--kv-transfer-config", json.dumps(transfer)),
            reason=f"It serves {profile.role} alone; KV blocks pass between replicas over NIXL.",
        )


def _kv_events_config(profile: EngineProfile, replica: int) -> dict[str, Any]:
    """The keys of ``--kv-events-config``. An address is bound where it names any host."""
    address = profile.kv_events[replica]
    if address.startswith("tcp://"):
        address = f"tcp://*:{address.rpartition(':')[2]}"
    return {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": address}


def _batch_flags(profile: EngineProfile) -> Iterator[LaunchFlag]:
    if profile.goal in _GOALS:
        mode, reason = _GOALS[profile.goal]
        yield LaunchFlag(
            argv=("--performance-mode", mode), reason=reason, feature="performance mode"
        )
    goal_sequences, goal_tokens = _BATCH_LIMITS[profile.goal]
    if not profile.chunked_prefill:
        goal_tokens = 0  # a whole prompt has to fit into a step
    if sequences := profile.max_sequences or goal_sequences:
        yield LaunchFlag(
            argv=("--max-num-seqs", str(sequences)),
            reason="Sequences in a batch: more serve more calls, each of them slower.",
        )
    if tokens := profile.max_batched_tokens or max(goal_tokens, sequences if goal_tokens else 0):
        yield LaunchFlag(
            argv=("--max-num-batched-tokens", str(tokens)),
            reason="Tokens per step: fewer keep streams even, more finish prefill sooner.",
        )
    if profile.chunked_prefill:
        yield LaunchFlag(
            argv=("--enable-chunked-prefill",),
            reason="Long prompts are split, so that running streams go on meanwhile.",
            feature="chunked prefill",
        )
    else:
        yield LaunchFlag(
            argv=("--no-enable-chunked-prefill",), reason="The profile turns chunked prefill off."
        )
    if profile.goal is ServingGoal.THROUGHPUT:
        yield LaunchFlag(
            argv=("--stream-interval", "8"),
            reason="Streams 8 tokens at a time, which costs the processor less.",
            feature="stream interval",
        )


def _parallel_flags(profile: EngineProfile) -> Iterator[LaunchFlag]:
    sizes = (
        ("--tensor-parallel-size", profile.tensor_parallel, "Splits each layer over so many GPUs."),
        ("--pipeline-parallel-size", profile.pipeline_parallel, "Splits the layers into stages."),
        ("--data-parallel-size", profile.data_parallel, "Runs so many engines behind one port."),
    )
    for flag, size, reason in sizes:
        if size > 1:
            yield LaunchFlag(argv=(flag, str(size)), reason=reason)


def _speculation_flags(profile: EngineProfile) -> Iterator[LaunchFlag]:
    if profile.speculation:
        settings = json.dumps(_speculative_config(profile.speculation))
        reason = SPECULATION_REASONS[profile.speculation.method]
        yield LaunchFlag(
            argv=("--speculative-config", settings), reason=reason, feature=SPECULATION
        )


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


def _api_flags(profile: EngineProfile) -> Iterator[LaunchFlag]:
    if profile.tool_call_parser:
        yield LaunchFlag(
            argv=("--enable-auto-tool-choice", "--tool-call-parser", profile.tool_call_parser),
            reason="Reads the model's tool calls out of its text.",
        )
    if profile.reasoning_parser:
        yield LaunchFlag(
            argv=("--reasoning-parser", profile.reasoning_parser),
            reason="Reads the model's reasoning out of its text.",
        )
    if profile.goal is ServingGoal.LATENCY or "vllm" in profile.hints:
        yield LaunchFlag(
            argv=("--scheduling-policy", "priority"),
            reason="Calls with a priority go first; others keep their order.",
            feature="" if "vllm" in profile.hints else "priority",
        )


def _metrics_flags(profile: EngineProfile) -> Iterator[LaunchFlag]:
    version = _version(profile)
    yield LaunchFlag(
        argv=("--enable-prompt-tokens-details",),
        reason="Answers say how many prompt tokens were read from the cache.",
        feature="cached tokens in answers",
    )
    if version >= _PER_REQUEST_METRICS_SINCE:
        yield LaunchFlag(
            argv=("--enable-per-request-metrics",),
            reason="Answers say the time in queue, prefill and decode.",
            feature="times in answers",
        )
    if profile.speculation and version >= _SPEC_METRICS_SINCE:
        yield LaunchFlag(
            argv=("--per-request-spec-decode-metrics", "summary"),
            reason="Answers say how many draft tokens were accepted.",
            feature="acceptance in answers",
        )


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
    metrics=MetricNames(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        prefix_queries=("vllm:prefix_cache_queries_total",),
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
