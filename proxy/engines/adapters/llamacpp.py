"""llama.cpp: its server inside the ``xllamacpp`` wheel, or a ``llama-server`` binary.

Both take the same flags here. Versions are llama.cpp's build numbers.
Source: option names and metric names in the wheel xllamacpp 2026.10.11549, read and run 2026-11-24.
"""

from collections.abc import Iterator
from typing import Final

from proxy.engines.adapters.adapter import (
    SPECULATION_REASONS,
    CommandLine,
    EngineAdapter,
    MetricNames,
    Misfit,
)
from proxy.engines.adapters.launch_command import SPECULATION, FlagReasons, LaunchFlag, launch_flags
from proxy.engines.profiles import (
    Engine,
    EngineProfile,
    KVDtype,
    ServingGoal,
    Speculation,
    SpeculativeMethod,
)

_BUILD: Final = "11549"
_LAUNCHER: Final = "proxy.engines.supervision.llamacpp_server"
_MIB_PER_GIB: Final = 1_024
_KV_DTYPES: Final = {KVDtype.INT8: "q8_0", KVDtype.INT4: "q4_0"}
#: Slots of a goal where the profile states no ``max_sequences``.
_SLOTS: Final = {ServingGoal.LATENCY: 2, ServingGoal.BALANCED: 4, ServingGoal.THROUGHPUT: 8}
_SPECULATION: Final = {
    SpeculativeMethod.DRAFT_MODEL: "draft-simple",
    SpeculativeMethod.EAGLE3: "draft-eagle3",
    SpeculativeMethod.MTP: "draft-mtp",
    SpeculativeMethod.NGRAM: "ngram-simple",
}
_REASONING_FORMATS: Final = ("none", "auto", "deepseek", "deepseek-legacy")


_REASONS: Final[FlagReasons] = {
    "--model": ("The weights it serves, as GGUF.", ""),
    "--hf-repo": ("The weights it serves, as GGUF.", ""),
    "--alias": ("The model's name in answers; calls may ask by any.", ""),
    "--host": ("The gateway reaches the replica there.", ""),
    "--parallel": ("Slots: calls served at once, each with a prefix cache of its own.", ""),
    "--batch-size": ("Tokens per step: fewer keep streams even, more finish prefill sooner.", ""),
    "--cache-type-k": ("Smaller KV cache; values in this format need flash attention.", ""),
    "--cache-prompt": ("A prefix seen before in a slot is not computed again.", "prefix caching"),
    "--no-cache-prompt": ("The profile turns prefix caching off.", ""),
    "--cache-ram": (
        "Prompts that leave a slot stay readable in so many MiB of host memory.",
        "KV offload",
    ),
    "--n-gpu-layers": ("All layers run on processors: it has no GPU.", ""),
    "--threads": ("Processor threads: more than cores, over all replicas, make each wait.", ""),
    "--spec-draft-threads": (
        "Threads of the model that drafts: it takes turns with the other.",
        SPECULATION,
    ),
    "--spec-draft-model": ("The weights that draft.", SPECULATION),
    "--spec-draft-hf": ("The weights that draft.", SPECULATION),
    "--spec-draft-n-max": ("Draft tokens per step: more pay where accepted.", SPECULATION),
    "--jinja": ("The model's own chat template, which tool calls need.", ""),
    "--reasoning-format": ("Reads the model's reasoning out of its text.", ""),
    "--metrics": ("Load, cache and acceptance are read from there.", "metrics"),
}


def _command_line(profile: EngineProfile, replica: int, python: str) -> CommandLine:
    model_flag = "--model" if is_file(profile.model) else "--hf-repo"
    slots = profile.max_sequences or _SLOTS[profile.goal]
    dtype = _KV_DTYPES.get(profile.kv_dtype)
    rows: list[tuple[str, object] | LaunchFlag] = [
        (model_flag, profile.model),
        ("--alias", profile.served_name),
        ("--host", (profile.host, "--port", profile.port + replica)),
        ("--parallel", slots),
        *_context(slots, profile.max_model_len),
        ("--batch-size", profile.max_batched_tokens),
        ("--cache-type-k", (dtype, "--cache-type-v", dtype, "--flash-attn", "on") if dtype else ()),
        ("--cache-prompt", profile.prefix_caching),
        ("--no-cache-prompt", not profile.prefix_caching),
        ("--cache-ram", int(profile.kv_offload_gb * _MIB_PER_GIB)),
        ("--n-gpu-layers", profile.gpus == 0 and "0"),
        ("--threads", profile.threads and (profile.threads, "--threads-batch", profile.threads)),
        *_splits(profile),
        *_speculation_rows(profile.speculation, profile.threads),
        ("--jinja", True),
        ("--reasoning-format", profile.reasoning_parser),
        ("--metrics", True),
    ]
    return profile.program or (python, "-m", _LAUNCHER), launch_flags(_REASONS, rows)


def is_file(model: str) -> bool:
    """True if a model is a path of weights, and no Hugging Face id."""
    return model.endswith(".gguf") or model.startswith(("/", "./", "../", "~"))


def _context(slots: int, tokens: int) -> Iterator[LaunchFlag]:
    if tokens:
        reason = f"Context of all slots: {slots} of {tokens} tokens."
        yield LaunchFlag(("--ctx-size", str(slots * tokens)), reason)


def _splits(profile: EngineProfile) -> Iterator[LaunchFlag]:
    if profile.tensor_parallel > 1:
        yield LaunchFlag(("--split-mode", "row"), "Splits each layer's rows over the GPUs.")
    if profile.pipeline_parallel > 1:
        yield LaunchFlag(("--split-mode", "layer"), "Spreads layers over the GPUs.")


def _speculation_rows(
    speculation: Speculation | None, threads: int
) -> Iterator[tuple[str, object] | LaunchFlag]:
    if speculation is None:
        return
    kind, reason = _SPECULATION[speculation.method], SPECULATION_REASONS[speculation.method]
    yield LaunchFlag(("--spec-type", kind), reason, SPECULATION)
    tokens = str(speculation.tokens)
    if speculation.method is SpeculativeMethod.NGRAM:
        size = str(speculation.ngram_max)
        reason = f"Looks for the last {size} tokens, and drafts the {tokens} that followed."
        argv = ("--spec-ngram-simple-size-n", size, "--spec-ngram-simple-size-m", tokens)
        yield LaunchFlag(argv, reason, SPECULATION)
        return
    yield "--spec-draft-threads", speculation.draft and threads
    flag = "--spec-draft-model" if is_file(speculation.draft) else "--spec-draft-hf"
    yield flag, speculation.draft
    yield "--spec-draft-n-max", tokens


def _env(profile: EngineProfile, replica: int) -> dict[str, str]:
    """Each replica of several has GPUs of its own, where the profile says how many."""
    if profile.replicas == 1 or not profile.gpus:
        return {}
    first = replica * profile.gpus
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(first, first + profile.gpus)))}


def _misfits(profile: EngineProfile) -> Iterator[Misfit]:
    if profile.quantization:
        fix = "leave it out, and name a GGUF file in that format"
        yield Misfit("quantization", "is a property of the GGUF file", fix)
    if profile.cpu_offload_gb:
        fix = 'leave it out, and write extra_args = ["--n-gpu-layers", "20"]'
        yield Misfit("cpu_offload_gb", "is counted in layers by llama.cpp", fix)
    if not profile.chunked_prefill:
        fix = "leave it out; max_batched_tokens sets the size"
        yield Misfit("chunked_prefill", "cannot be turned off in llama.cpp", fix)
    if profile.tool_call_parser:
        fix = "leave it out; the chat template tells llama.cpp"
        yield Misfit("tool_call_parser", "is not chosen in llama.cpp", fix)
    if profile.reasoning_parser not in ("", *_REASONING_FORMATS):
        fix = f"write one of {', '.join(_REASONING_FORMATS)}"
        yield Misfit("reasoning_parser", "is not known to llama.cpp", fix)
    yield from _parallel_misfits(profile)


def _parallel_misfits(profile: EngineProfile) -> Iterator[Misfit]:
    if profile.data_parallel > 1:
        yield Misfit("data_parallel", "is not in llama.cpp", "write replicas = 2, or more")
    if profile.tensor_parallel > 1 and profile.pipeline_parallel > 1:
        fix = "write 1 for one of the two"
        yield Misfit("tensor_parallel", "goes with no pipeline_parallel in llama.cpp", fix)
    if profile.role:
        yield Misfit("role", "is not in llama.cpp", 'leave it out, or write engine = "vllm"')


LLAMACPP: Final = EngineAdapter(
    engine=Engine.LLAMACPP,
    oldest_version=_BUILD,
    newest_version=_BUILD,
    attach_needs="--metrics --jinja",
    properties_path="/props",
    serves_responses=True,
    continues="continue_final_message",
    prompt_tokens_exclude_cached=True,
    finishes_streams=False,
    speculative_methods=frozenset(_SPECULATION),
    kv_dtypes=frozenset({KVDtype.AUTO, *_KV_DTYPES}),
    metrics=MetricNames(
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        prefix_hits=("llamacpp:prompt_tokens_cached_total",),
        prompt_tokens=("llamacpp:prompt_tokens_total",),
        cached_prompt_tokens=("llamacpp:prompt_tokens_cached_total",),
        generation_tokens=("llamacpp:tokens_predicted_total",),
        spec_drafts=("llamacpp:spec_decode_num_drafts_total",),
        spec_draft_tokens=("llamacpp:spec_decode_num_draft_tokens_total",),
        spec_accepted_tokens=("llamacpp:spec_decode_num_accepted_tokens_total",),
        prefill_seconds_total=("llamacpp:prompt_seconds_total",),
        decode_seconds_total=("llamacpp:tokens_predicted_seconds_total",),
    ),
    build_command_line=_command_line,
    build_env=_env,
    find_misfits=_misfits,
)
