"""Techniques of self-hosted inference: when each pays, its flag per engine, its cost, its measure.

Flags of vLLM and llama.cpp are those that their adapters write. Flags of SGLang 0.5.23 were read in
its source, keys of TensorRT-LLM in its example configurations; neither was run.
Source: https://nvidia.github.io/TensorRT-LLM/ (2026-11); figures of the costs: the vLLM project's
blog of 2026-04-22 on fp8 KV, and the papers on EAGLE-3 and SuffixDecoding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import Engine, EngineProfile, KVDtype, ServingGoal

_EXAMPLES: Final = "techniques.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One technique.

    Attributes:
        example: Its profile in ``techniques.toml``.
        field: The field of a profile that turns it on.
        good_for: Traffic for which it pays.
        costs: Price paid for it.
        judged_by: Metric that shows whether it pays.
        flags: Its flag on each engine, and "" where the engine has none.
        is_used: True for a profile in which it is in effect.
        counters: Fields of ``MetricNames`` by which the advisor measures it; else see ``options``.
        options: Options of ``thriftgate bench latency``, run once without it and once with it.
        look_at: Figures of that benchmark, or of the advisor, that tell whether it paid.
        url: URL to measure in place of the first replica's.
    """

    name: str
    example: str
    field: str
    good_for: str
    costs: str
    judged_by: str
    flags: dict[Engine, str]
    is_used: Callable[[EngineProfile], bool]
    look_at: str
    counters: tuple[str, ...] = ()
    options: str = ""
    url: str = ""

    def benchmark(self, profile: EngineProfile) -> str:
        """The command that measures a profile's first replica; "" where the advisor does."""
        if not self.options:
            return ""
        url = self.url or ADAPTERS[profile.engine].urls(profile, 0).base_url
        return f"thriftgate bench latency {url} {self.options}"


def _flags(vllm: str, llamacpp: str, sglang: str, tensorrt_llm: str) -> dict[Engine, str]:
    return {
        Engine.VLLM: vllm,
        Engine.LLAMACPP: llamacpp,
        Engine.SGLANG: sglang,
        Engine.TENSORRT_LLM: tensorrt_llm,
    }


_SPECULATION: Final = ("--speculative-config", "--spec-type")
_TRT_SPECULATION: Final = "speculative_config.decoding_type"
_ACCEPTANCE: Final = "accepted tokens ÷ draft tokens, and tokens/s with and without"
_SPECULATION_COUNTERS: Final = (
    "spec_drafts",
    "spec_draft_tokens",
    "spec_accepted_tokens",
    "generation_tokens",
    "decode_seconds",
)
_SPEED_UP: Final = "measured speed-up, from calls with drafts and without"
_KV_COUNTERS: Final = (
    "preemptions",
    "queue_seconds",
    "kv_usage",
    "waiting",
    "generation_tokens",
    "decode_seconds",
)
_KV_CHANGE: Final = "preempted calls, readings with calls that wait, tokens/s: before → after"
#: Makes streams run beside long prompts that arrive.
_LONG_PROMPTS: Final = (
    "--concurrency 16 --prompt-tokens 8000 --prefix cold --output-tokens 256 --requests 128 --json"
)
_STALLS: Final = "p99 of `icl_ms` (gaps between chunks) against p50 of `ttft_ms`"
_WEIGHTS: Final = "--concurrency 1,16,64 --prompt-tokens 1000 --prefix cold --requests 256"
_WEIGHTS_LOOK_AT: Final = "ITL p50 at 1 caller, tokens/s at 64; answers by your own evaluation"


def _speculates(method: str) -> Callable[[EngineProfile], bool]:
    return lambda profile: profile.speculation is not None and profile.speculation.method == method


TECHNIQUES: Final = (
    Technique(
        name="speculation: draft model",
        example="draft-model",
        field="speculative",
        good_for="small batches of a large model that has a small one with the same tokenizer",
        costs="memory for the draft; slower than none once batches are large",
        judged_by=_ACCEPTANCE,
        flags=_flags(*_SPECULATION, "--speculative-algorithm STANDALONE", _TRT_SPECULATION),
        is_used=_speculates("draft_model"),
        look_at=_SPEED_UP,
        counters=_SPECULATION_COUNTERS,
    ),
    Technique(
        name="speculation: n-gram",
        example="ngram",
        field="speculative",
        good_for="answers that repeat their prompt: code edits, quotes, extraction",
        costs="nearly nothing where nothing repeats",
        judged_by=_ACCEPTANCE,
        flags=_flags(*_SPECULATION, "--speculative-algorithm NGRAM", _TRT_SPECULATION),
        is_used=_speculates("ngram"),
        look_at=_SPEED_UP,
        counters=_SPECULATION_COUNTERS,
    ),
    Technique(
        name="speculation: suffix",
        example="suffix",
        field="speculative",
        good_for="agents whose calls repeat earlier answers",
        costs="host memory for the suffix trees; needs the arctic-inference package",
        judged_by=_ACCEPTANCE,
        flags=_flags("--speculative-config", "", "", ""),
        is_used=_speculates("suffix"),
        look_at=_SPEED_UP,
        counters=_SPECULATION_COUNTERS,
    ),
    Technique(
        name="speculation: EAGLE-3",
        example="eagle3",
        field="speculative",
        good_for="small to middle batches of a model for which a head was trained",
        costs="memory for the head, and a head per model",
        judged_by=_ACCEPTANCE,
        flags=_flags(*_SPECULATION, "--speculative-algorithm EAGLE3", _TRT_SPECULATION),
        is_used=_speculates("eagle3"),
        look_at=_SPEED_UP,
        counters=_SPECULATION_COUNTERS,
    ),
    Technique(
        name="speculation: MTP",
        example="mtp",
        field="speculative",
        good_for="models with multi-token prediction layers of their own; 1 or 2 tokens",
        costs="little; acceptance falls with each further token",
        judged_by=_ACCEPTANCE,
        flags=_flags(*_SPECULATION, "--speculative-algorithm NEXTN", _TRT_SPECULATION),
        is_used=_speculates("mtp"),
        look_at=_SPEED_UP,
        counters=_SPECULATION_COUNTERS,
    ),
    Technique(
        name="fp8 KV cache",
        example="fp8-kv",
        field="kv_dtype",
        good_for="contexts over about 7k tokens, or a full KV cache",
        costs="a little accuracy; slower on short contexts",
        judged_by="KV cache usage, preemptions and inter-token latency",
        flags=_flags(
            "--kv-cache-dtype", "", "--kv-cache-dtype fp8_e4m3", "kv_cache_config.dtype: fp8"
        ),
        is_used=lambda profile: profile.kv_dtype is KVDtype.FP8,
        look_at=_KV_CHANGE,
        counters=_KV_COUNTERS,
    ),
    Technique(
        name="int4 KV cache",
        example="int4-kv",
        field="kv_dtype",
        good_for="more sequences or longer contexts than fp8 leaves room for",
        costs="accuracy that nobody has published; evaluate before rollout",
        judged_by="KV cache usage and preemptions, beside your own evaluation",
        flags=_flags("--kv-cache-dtype", "--cache-type-k", "", ""),
        is_used=lambda profile: profile.kv_dtype is KVDtype.INT4,
        look_at=_KV_CHANGE,
        counters=_KV_COUNTERS,
    ),
    Technique(
        name="KV offload",
        example="kv-offload",
        field="kv_offload_gb",
        good_for="prefixes that return after they were evicted, such as idle conversations",
        costs="host memory, and PCIe traffic",
        judged_by="prefix hits ÷ queries, and TTFT of returning conversations",
        flags=_flags(
            "--kv-offloading-size",
            "--cache-ram",
            "--enable-hierarchical-cache",
            "kv_cache_config.host_cache_size",
        ),
        is_used=lambda profile: profile.kv_offload_gb > 0,
        look_at="cost: cold TTFT p50 and tokens/s; gain: delivered reuse in `engine status`",
        options="--concurrency 16 --prompt-tokens 8000 --prefix cold --requests 128",
    ),
    Technique(
        name="fp8 weights",
        example="fp8-weights",
        field="quantization",
        good_for="GPUs with fp8 units: half the memory, and faster steps",
        costs="a little accuracy",
        judged_by="tokens/s and inter-token latency, beside your own evaluation",
        flags=_flags("--quantization", "", "--quantization fp8", "a checkpoint in fp8"),
        is_used=lambda profile: "fp8" in profile.quantization,
        look_at=_WEIGHTS_LOOK_AT,
        options=_WEIGHTS,
    ),
    Technique(
        name="AWQ weights",
        example="awq-weights",
        field="quantization",
        good_for="a model that does not fit otherwise; batches up to a quarter of what fills a step"
        " in bf16, such as 73 sequences on an H100",
        costs="some accuracy; larger batches get slower",
        judged_by="tokens/s and inter-token latency, beside your own evaluation",
        flags=_flags("--quantization", "", "--quantization awq", "a checkpoint in AWQ"),
        is_used=lambda profile: "awq" in profile.quantization,
        look_at=_WEIGHTS_LOOK_AT,
        options=_WEIGHTS,
    ),
    Technique(
        name="prefix caching",
        example="prefix-caching",
        field="prefix_caching",
        good_for="shared system prompts, tools and long conversations",
        costs="nearly nothing; on by default",
        judged_by="prefix hits ÷ queries, and TTFT of hits against misses",
        flags=_flags(
            "--enable-prefix-caching",
            "--cache-prompt",
            "on, unless --disable-radix-cache",
            "kv_cache_config.enable_block_reuse",
        ),
        is_used=lambda profile: profile.prefix_caching,
        look_at="warm TTFT p50, and the part of prompts read from the cache",
        options="--concurrency 1,8 --prompt-tokens 8000 --prefix cold,warm",
    ),
    Technique(
        name="continuous batching limits",
        example="batching",
        field="max_sequences, max_batched_tokens",
        good_for="choosing between even streams and total throughput",
        costs="more sequences make each slower and use more KV memory",
        judged_by="queue time against inter-token latency, and preemptions",
        flags=_flags("--max-num-seqs", "--parallel", "--max-running-requests", "max_batch_size"),
        is_used=lambda profile: (
            bool(profile.max_sequences or profile.max_batched_tokens)
            or profile.goal is not ServingGoal.BALANCED
        ),
        look_at="goodput, tokens/s, ITL p99",
        options="--concurrency 16,64,256 --prompt-tokens 1000 --prefix cold --requests 1024"
        " --goodput ttft:2000,itl:50",
    ),
    Technique(
        name="chunked prefill",
        example="chunked-prefill",
        field="chunked_prefill, max_batched_tokens",
        good_for="long prompts beside running streams",
        costs="TTFT of the long prompt itself",
        judged_by="p99 inter-token latency against TTFT",
        flags=_flags(
            "--enable-chunked-prefill",
            "--batch-size",
            "--chunked-prefill-size",
            "enable_chunked_prefill",
        ),
        is_used=lambda profile: profile.chunked_prefill,
        look_at=_STALLS,
        options=_LONG_PROMPTS,
    ),
    Technique(
        name="tensor parallelism",
        example="tensor-parallel",
        field="tensor_parallel",
        good_for="a model too large for one GPU, or lower latency",
        costs="traffic between GPUs; more replicas serve more calls",
        judged_by="inter-token latency, and cost per token",
        flags=_flags(
            "--tensor-parallel-size",
            "--split-mode",
            "--tp-size",
            "tensor_parallel_size",
        ),
        is_used=lambda profile: profile.tensor_parallel > 1,
        look_at="ITL p50 at 1 caller; tokens/s at 64 ÷ GPUs",
        options="--concurrency 1,64 --prompt-tokens 2000 --prefix cold --requests 256",
    ),
    Technique(
        name="CPU offload",
        example="cpu-offload",
        field="cpu_offload_gb",
        good_for="a model that does not fit, where speed matters little",
        costs="each step reads the weights over PCIe: many times slower",
        judged_by="inter-token latency, and cost per token",
        flags=_flags("--cpu-offload-gb", "", "--cpu-offload-gb", ""),
        is_used=lambda profile: profile.cpu_offload_gb > 0,
        look_at="ITL p50 and tokens/s",
        options="--concurrency 1,8 --prompt-tokens 1000 --prefix cold --duration 120 --timeout 600",
    ),
    Technique(
        name="disaggregated prefill",
        example="prefill",
        field="role",
        good_for="steady inter-token latency beside long prompts, on several GPUs",
        costs="KV transfer per call, and a router that knows both roles; no more throughput",
        judged_by="p99 inter-token latency, and time spent in transfer",
        flags=_flags(
            "--kv-transfer-config", "", "--disaggregation-mode", "cache_transceiver_config"
        ),
        is_used=lambda profile: profile.role is not None,
        look_at=_STALLS,
        options=_LONG_PROMPTS,
        url="http://ROUTER:8000/v1",
    ),
)


def example_profiles() -> dict[str, EngineProfile]:
    """The shipped profiles: one for each technique, and one for this machine's processors."""
    return parse_profiles(example_text(), _EXAMPLES)


def example_text() -> str:
    """The shipped profiles, as TOML."""
    return resources.files("proxy.engines").joinpath(_EXAMPLES).read_text(encoding="utf8")


def used_techniques(profile: EngineProfile) -> tuple[Technique, ...]:
    """The techniques that are in effect in a profile, also by default, on its engine."""
    return tuple(
        each for each in TECHNIQUES if each.flags[profile.engine] and each.is_used(profile)
    )


def technique_table() -> str:
    """The techniques as a Markdown table, which the reference shows."""
    rows = ["| Technique | Example | Good for | Costs | Judged by |", "|---|---|---|---|---|"]
    for each in TECHNIQUES:
        row = (each.name, f"`{each.example}`", each.good_for, each.costs, each.judged_by)
        rows.append(f"| {' | '.join(row)} |")
    return "\n".join(rows)
